"""Simulated TCP between a client's event loop and a node: in order, late, and broken at times."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from tests.robustness.simulation.node import Node, encoded
from tests.robustness.simulation.plan import LATEST, Plan
from tests.robustness.simulation.world import Process

PAYLOAD = re.compile(r"\{\"host.*?\}")


class Cable:
    """Between all clients and all nodes, by host name."""

    def __init__(self, nodes: list[Node], plan: Plan, rng: Random) -> None:
        self.nodes = {f"node{node.number}": node for node in nodes}
        self._plan = plan
        self._rng = rng
        self.faulty = True
        self.ended = False
        self._ears: dict[tuple[int, bytes], Line] = {}
        for node in nodes:
            node.push = partial(self._push, node)

    def delay(self) -> float | None:
        """How long a message takes; None: the connection breaks instead."""
        rng, plan = self._rng, self._plan
        if self.faulty:
            chance = rng.random()
            if chance < plan.loss / 2:
                return None
            if chance < plan.loss / 2 + plan.late / 2:
                return rng.uniform(0.05, rng.choice((0.5, 0.5, LATEST)))
        return rng.uniform(0.0002, 0.005)

    def coin(self) -> bool:
        return self._rng.random() < 0.5

    async def connect(
        self, process: Process, make: Callable[[], asyncio.Protocol], host: str
    ) -> tuple[Line, asyncio.Protocol]:
        """Connect a client. A node that stands still is connected to all the same."""
        node = self.nodes[host]
        await asyncio.sleep(self.delay() or 0.01)
        if not node.up or self.ended:
            raise ConnectionRefusedError(f"{host} is down")
        protocol = make()
        line = Line(self, process, node, protocol)
        protocol.connection_made(line)
        return line, protocol

    def subscribe(self, line: Line, channel: bytes) -> None:
        self._ears[line.node.number, channel] = line

    def _push(self, node: Node, channel: bytes, message: bytes) -> None:
        line = self._ears.get((node.number, channel))
        if line is not None:
            line.answer(_push(b"message", channel, message))


class Line(asyncio.Transport):
    """One connection, as its client has it."""

    def __init__(
        self, cable: Cable, client: Process, node: Node, protocol: asyncio.Protocol
    ) -> None:
        super().__init__()
        self.node = node
        self._cable = cable
        self._client = client
        self._protocol = protocol
        self._life = node.life
        self._there = self._back = 0.0  # when the last message arrives
        # In order, whatever rounding does to two that arrive at the same time.
        self._requests: deque[bytes] = deque()
        self._replies: deque[bytes] = deque()
        self._open = True
        self._broken = False
        """Nothing passes any more; its client will hear of it."""
        self._swallowed = False

    def write(self, data: bytes) -> None:  # type: ignore[override]  # we write only bytes
        """Send it, behind what was sent before."""
        if not self._open or self._broken or self._cable.ended:
            return
        delay = self._cable.delay()
        if delay is None:
            if self._cable.coin():
                self._send(data, 0.01)
            self._break("reset by peer")
        else:
            self._send(data, delay)

    def _send(self, data: bytes, delay: float) -> None:
        now = self._client.world.now
        self._there = max(self._there, now + delay)
        self._requests.append(data)
        self.node.process.call_later(self._there - now, self._arrive)

    def _arrive(self) -> None:
        node, data = self.node, self._requests.popleft()
        if self._swallowed or self._cable.ended:
            return
        if not node.up or node.life != self._life:
            self._break("the node was restarted")
            return
        if b"SUBSCRIBE" in data:
            channel = data.split(b"\r\n")[4]
            self._cable.subscribe(self, channel)
            self.answer(_push(b"subscribe", channel, 1))
            return
        replies = node.execute(data)
        if node.world.tracing:
            said = PAYLOAD.sub("{}", str(replies))  # it has the true time in it
            node.world.say(node.process.name, f"{self._client.name}: {_short(data)} -> {said}")
        self.answer(b"".join(map(encoded, replies)))

    def answer(self, data: bytes) -> None:
        """Send something to the client."""
        if not self._open or self._broken or self._cable.ended:
            return
        delay = self._cable.delay()
        if delay is None:
            self._break("reset by peer")
            return
        now = self._client.world.now
        self._back = max(self._back, now + delay)
        self._replies.append(data)
        self._client.call_later((self._back - now) * self._client.rate, self._receive)

    def _receive(self) -> None:
        data = self._replies.popleft()
        if self._open and not self._broken and not self._cable.ended:
            self._protocol.data_received(data)

    def _break(self, why: str) -> None:
        if self._open and not self._broken:
            self._broken = True
            self._client.call_later(0.01, self._lost, why)

    def _lost(self, why: str) -> None:
        if self._open:
            self._open = False
            self._protocol.connection_lost(ConnectionResetError(why))

    def abort(self) -> None:
        """Close at once. What is on its way may arrive all the same, late."""
        self._open = False
        self._swallowed = self._cable.coin()

    def close(self) -> None:
        self._open = False

    def is_closing(self) -> bool:
        return not self._open

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # as asyncio has it
        del name
        return default


def _push(*words: bytes | int) -> bytes:
    return b">%d\r\n" % len(words) + b"".join(map(encoded, words))


def _short(data: bytes) -> str:
    words = [word for word in data.split(b"\r\n") if word[:1] not in b"*$" and len(word) < 80]
    return b" ".join(words)[:200].decode(errors="replace")
