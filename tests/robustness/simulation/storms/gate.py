"""The door of a replica: its handshakes, in place of uvicorn's, and a new process after each death.

What uvicorn and the application do before `Wire` takes over is one step here, with what it costs.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from collections import Counter, deque
from collections.abc import Callable
from math import ceil
from typing import Any

from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.service.binding import BACKLOG
from lockfast.service.figures import CONNECTIONS
from lockfast.service.handshake import LIMIT, TURN
from lockfast.service.replica import Replica
from lockfast.service.wire import Wire
from tests.robustness.simulation.storms.machine import Machine
from tests.robustness.simulation.storms.network import End

HANDSHAKE = 600e-6  # seconds of processor time that a new connection costs a replica
MESSAGE = 150e-6  # the same, of what a client sends at once
KEY = re.compile(rb"Sec-WebSocket-Key: (\S+)")
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455
RETURNS = b"\r\nLockfast-Returns: 1\r\n"
AGREED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Accept: %b\r\n\r\n"
)
REFUSED = b"HTTP/1.1 503 Service Unavailable\r\n%bContent-Length: 0\r\nConnection: close\r\n\r\n"


class Process:
    """One process of a replica: what the real code is, and the machine that it runs on."""

    def __init__(self, machine: Machine, make: Callable[[Machine], Engine], stands: int) -> None:
        self.machine = machine
        self.replica = Replica(self._open, Aio(machine.time))
        self._make = make
        self._engine: Any = None
        self.wires: set[Any] = set()
        self.handshake, self.message = HANDSHAKE * stands, MESSAGE * stands
        self.backlog: deque[tuple[Gate, bytes]] = deque()
        """Connections that are not accepted yet, and what they have sent."""
        self._room = max(BACKLOG // stands, 1)
        self._turn = max(TURN // stands, 1)
        self.ends: dict[End, None] = {}
        """Its ends of the connections that are open."""
        self.arrivals = 0
        """Connections whose handshake has not begun."""
        self.welcomed: Counter[int] = Counter()
        """Connections that became a WebSocket, by second."""

    def _open(self) -> Engine:
        self._engine = self._make(self.machine)
        return self._engine  # type: ignore[no-any-return]

    def accept(self) -> None:
        """Accept some connections, and then let others have their turn, as `Entrance` does."""
        for _ in range(min(self._turn, len(self.backlog))):
            gate, data = self.backlog[0]
            gate.shake(data)
            self.backlog.popleft()
        if self.backlog:
            self.machine.call_soon(self.accept)

    def leave(self) -> None:
        """Lose the connection to the database."""
        if self._engine is not None:
            self._engine.leave()

    @property
    def crowded(self) -> bool:
        """Whether the system drops a new connection, whose client tries again."""
        return self.arrivals >= self._room

    @property
    def waiting(self) -> int:
        """How many messages wait to be read, or are not answered yet."""
        read = sum(connection._unanswered for connection in self.replica.connections)
        unread = sum(
            getattr(each._callback, "__func__", None) is End._receive for each in self.machine.ready
        )
        return read + unread

    @property
    def tasks(self) -> int:
        """How many tasks the replica has."""
        return len(self.replica._tasks._running)


class Gate(asyncio.Protocol):
    """A new connection, until it is a WebSocket."""

    __slots__ = ("_began", "_end", "_process")

    def __init__(self, process: Process, end: End) -> None:
        self._process = process
        self._end = end
        self._began = process.machine.time()
        process.arrivals += 1
        process.ends[end] = None

    def data_received(self, data: bytes) -> None:
        """Wait to be accepted: what is connected already does not wait for those who come."""
        process = self._process
        process.backlog.append((self, data))
        if len(process.backlog) == 1:
            process.machine.call_soon(process.accept)

    def shake(self, data: bytes) -> None:
        """Shake hands."""
        process = self._process
        process.arrivals -= 1
        if self._end.is_closing():  # `Entrance` sees that the client has left
            return
        process.machine.charge(process.handshake)
        if process.machine.time() - self._began > LIMIT:
            self._end.abort()
            return
        replica = process.replica
        if replica.draining:
            self._refuse(b"")
            return
        if replica.load.overloaded and RETURNS not in data:
            after = ceil(replica.load.refuse(CONNECTIONS).after)
            self._refuse(b"Retry-After: %d\r\n" % after)
            return
        found = KEY.search(data)
        assert found is not None
        accepted = base64.b64encode(hashlib.sha1(found[1] + GUID, usedforsecurity=False).digest())
        self._end.write(AGREED % accepted)
        process.welcomed[int(process.machine.time())] += 1
        Wire(replica, self._end, process.wires)
        self._end.set_protocol(Charged(process, self._end))

    def _refuse(self, fields: bytes) -> None:
        self._end.write(REFUSED % fields)
        self._end.close()

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002  # asyncio's
        """Forget the connection."""
        self._process.ends.pop(self._end, None)


class Charged(asyncio.Protocol):
    """A WebSocket whose messages cost processor time."""

    __slots__ = ("_end", "_process", "_wire")

    def __init__(self, process: Process, end: End) -> None:
        self._process = process
        self._end = end
        self._wire = end.protocol

    def data_received(self, data: bytes) -> None:
        self._process.machine.charge(self._process.message)
        self._wire.data_received(data)

    def connection_lost(self, error: Exception | None) -> None:
        self._process.ends.pop(self._end, None)
        self._wire.connection_lost(error)
