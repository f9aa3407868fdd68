"""The network between clients and replicas: TCP connections, and times in which nothing passes."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any

from tests.robustness.simulation.storms.machine import Machine, Time

LEAST, MOST = 0.0002, 0.002  # seconds that a segment takes
RESENT = 0.2  # seconds until a segment is sent again; then twice as many, and so on
RETRIED = 1.0  # the same, of a connection that is not answered


class Network:
    """Carries segments, unless it is cut."""

    def __init__(self, time: Time, rng: Random) -> None:
        self.time = time
        self._rng = rng
        self._cuts: dict[int, float] = {}
        """Until when the clients of each rack are cut off."""

    def cut(self, rack: int, until: float) -> None:
        """Let nothing pass between the clients of a rack and the replicas."""
        self._cuts[rack] = max(until, self._cuts.get(rack, 0.0))

    def severed(self, rack: int) -> bool:
        """Return whether nothing passes now."""
        return self._cuts.get(rack, 0.0) > self.time.now

    def arrival(self, sent: float, rack: int, again: float = RESENT) -> float:
        """Return when a segment arrives. What is lost is sent again after longer and longer."""
        over = self._cuts.get(rack, 0.0)
        pause = 0.0
        while sent + pause < over:
            pause = 2.0 * pause + again
        return sent + pause + LEAST + (MOST - LEAST) * self._rng.random()


class End(asyncio.Transport):
    """One end of a connection."""

    __slots__ = (
        "_later", "_latest", "_machine", "_network", "_open", "_paused", "_rack", "peer",
        "protocol",
    )  # fmt: skip

    peer: End

    def __init__(self, network: Network, machine: Machine, rack: int) -> None:
        super().__init__()
        self.protocol: asyncio.Protocol
        self._network = network
        self._machine = machine
        self._rack = rack
        self._open = True
        self._latest = 0.0
        """When the last segment to it arrives: they keep their order."""
        self._later: deque[bytes] | None = None
        """What has arrived while reading was paused."""
        self._paused = False

    def write(self, data: bytes) -> None:  # type: ignore[override]  # we write only bytes
        """Send it, behind what was sent before."""
        if self._open:
            self._send(self.peer._receive, data)

    def _send(self, what: Callable[..., object], *args: object) -> None:
        peer = self.peer
        at = max(self._network.arrival(self._machine.free, self._rack), peer._latest)
        peer._latest = at
        self._network.time.at(at, peer._arrive, what, args)

    def _arrive(self, what: Callable[..., object], args: tuple[object, ...]) -> None:
        if self._machine.dead:  # another process may have its place: what is unknown is reset
            self.peer.reset()
        else:
            self._machine.call_soon(what, *args)

    def _receive(self, data: bytes) -> None:
        if self._network.time.tracing:
            self._network.time.say(self._machine.name, "receives a message")
        if not self._open:
            self._send(self.peer._lost, ConnectionResetError("reset by peer"))
        elif self._paused:
            self._later = self._later or deque()
            self._later.append(data)
        else:
            self.protocol.data_received(data)

    def reset(self) -> None:
        """Hear from the host that there is no such connection."""
        at = self._network.arrival(self._network.time.now, self._rack)
        error = ConnectionResetError("reset by peer")
        self._network.time.at(at, self._machine.call_soon, self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        if self._open:
            self._open = False
            self.protocol.connection_lost(error)

    def abort(self) -> None:
        """Close at once. The other end hears of it."""
        self.close()

    def close(self) -> None:
        """Close behind what was written."""
        if self._open:
            self._open = False
            self._send(self.peer._ended)
            self._machine.call_soon(self.protocol.connection_lost, None)

    def _ended(self) -> None:
        """Hear that the other end is closed."""
        if self._open:
            self._open = False
            self.protocol.connection_lost(None)

    def is_closing(self) -> bool:
        return not self._open

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        while self._later and not self._paused and self._open:
            self.protocol.data_received(self._later.popleft())

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        assert isinstance(protocol, asyncio.Protocol)
        self.protocol = protocol

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # as asyncio has it
        del name
        return default
