"""A link: one client's connection through the proxy, and what the faults do to it."""

import asyncio
import contextlib
import socket
import struct
from asyncio import StreamReader, StreamWriter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.servers.copies import Copies

Predicate: TypeAlias = Callable[[bytes], bool]
_Lane: TypeAlias = "asyncio.Queue[tuple[float, bytes]]"

_CHUNK = 65536
_RST_ON_CLOSE = struct.pack("ii", 1, 0)


@dataclass
class Rule:
    """Requests to be picked out: those that match, up to a number if there is one."""

    matches: Predicate
    left: int | None

    def picks(self, request: bytes) -> bool:
        """Tell whether this request is one of them, and count it."""
        if self.left == 0 or not self.matches(request):
            return False
        if self.left is not None:
            self.left -= 1
        return True


@dataclass
class Faults:
    """The faults in force."""

    cut_requests: bool = False
    cut_replies: bool = False
    delay_requests: float = 0.0
    delay_replies: float = 0.0
    lost_replies: int = 0
    lose_after: Rule | None = None
    hold: Rule | None = None
    double: Rule | None = None
    double_after: float = 0.0


@dataclass
class Traffic:
    """What has passed."""

    connections: int = 0
    bytes_to_server: int = 0
    bytes_to_client: int = 0
    recorded: list[bytes] | None = None


@dataclass(eq=False)
class Link:
    """One connection. It lives in the proxy's loop; b"" stands for the end of a stream."""

    faults: Faults
    traffic: Traffic
    copies: Copies
    from_client: StreamReader
    to_client: StreamWriter
    held: list[bytes] = field(default_factory=list)
    # Bytes were dropped, so that the rest of the stream makes no sense any more.
    torn: bool = False
    answered: asyncio.Event = field(default_factory=asyncio.Event)
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    _to_server: StreamWriter | None = None
    _losing: bool = False
    _client_gone: bool = False
    _requests_ended: bool = False
    _target: tuple[str, int] = ("", 0)

    async def run(self, host: str, port: int) -> None:
        """Carry bytes both ways until the server ends the connection, or abort() is called."""
        self._target = (host, port)
        requests: _Lane = asyncio.Queue()
        replies: _Lane = asyncio.Queue()
        try:
            if self.faults.cut_requests:
                # The server never hears of a connection made across the cut.
                self.torn = True
                await asyncio.Event().wait()
            from_server, self._to_server = await asyncio.open_connection(host, port)
            async with asyncio.TaskGroup() as tasks:
                others = [
                    tasks.create_task(self._take_requests(requests)),
                    tasks.create_task(self._take_replies(from_server, replies)),
                    tasks.create_task(self._pass_requests(requests)),
                ]
                await self._pass_replies(replies)
                for task in others:
                    task.cancel()
        except OSError:
            # The server refused or broke off; the client sees its connection closed.
            pass
        finally:
            await self._close()

    @property
    def client(self) -> str:
        """The client's address."""
        return str(self.to_client.get_extra_info("peername")[0])

    def abort(self) -> None:
        """Close both sides with RST instead of FIN."""
        for writer in (self.to_client, self._to_server):
            if writer is None:
                continue
            with contextlib.suppress(OSError):
                plain: socket.socket = writer.get_extra_info("socket")
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
            writer.transport.abort()

    def release(self) -> int:
        """Hand on what was held and tell how many requests that were."""
        # No await in here: a request that comes in meanwhile must not overtake these.
        held, self.held = self.held, []
        self.answered.clear()
        for request in held:
            self._forward(request)
        return sum(1 for request in held if request)

    async def wait_executed(self) -> None:
        """Wait until the server has answered, or has closed if there is no client any more."""
        await (self.finished if self._client_gone else self.answered).wait()

    async def _take_requests(self, lane: _Lane) -> None:
        while request := await _read(self.from_client):
            if self.traffic.recorded is not None:
                self.traffic.recorded.append(request)
            lane.put_nowait((_now() + self.faults.delay_requests, request))
        self._client_gone = True
        lane.put_nowait((_now() + self.faults.delay_requests, b""))

    async def _take_replies(self, from_server: StreamReader, lane: _Lane) -> None:
        while reply := await _read(from_server):
            self.answered.set()
            lane.put_nowait((_now() + self.faults.delay_replies, reply))
        lane.put_nowait((_now() + self.faults.delay_replies, b""))

    async def _pass_requests(self, lane: _Lane) -> None:
        while True:
            request = await _due(lane)
            if self.faults.cut_requests or self.torn:
                self.torn = True
            elif self.held or (request and self.faults.hold and self.faults.hold.picks(request)):
                self.held.append(request)
            else:
                self._forward(request)

    async def _pass_replies(self, lane: _Lane) -> None:
        while True:
            reply = await _due(lane)
            if self.faults.cut_replies or self.torn:
                self.torn = True
            elif not reply:
                return
            elif self._loses():
                # The client is closed once the server has: then all it was sent is executed.
                self._end_requests()
            else:
                self.traffic.bytes_to_client += len(reply)
                # No drain: a client that has gone must not keep the server's replies back.
                self.to_client.write(reply)

    def _forward(self, request: bytes) -> None:
        if not request:
            self._end_requests()
        elif self._to_server is not None and not self._requests_ended:
            rule = self.faults.lose_after
            self._losing = self._losing or (rule is not None and rule.picks(request))
            self.traffic.bytes_to_server += len(request)
            self._to_server.write(request)
            if self.faults.double is not None and self.faults.double.picks(request):
                self.copies.send(self._target, request, self.faults.double_after)

    def _loses(self) -> bool:
        if not self._losing and self.faults.lost_replies > 0:
            self.faults.lost_replies -= 1
            self._losing = True
        return self._losing

    def _end_requests(self) -> None:
        if self._to_server is not None and not self._requests_ended:
            self._requests_ended = True
            with contextlib.suppress(OSError):
                self._to_server.write_eof()

    async def _close(self) -> None:
        writers = [writer for writer in (self.to_client, self._to_server) if writer is not None]
        for writer in writers:
            writer.close()
        self.answered.set()
        self.finished.set()
        # A client that does not read keeps its side open; the link stays known until then.
        for writer in writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _read(reader: StreamReader) -> bytes:
    try:
        return await reader.read(_CHUNK)
    except OSError:
        return b""


async def _due(lane: _Lane) -> bytes:
    due, data = await lane.get()
    if (wait := due - _now()) > 0:
        await asyncio.sleep(wait)
    return data
