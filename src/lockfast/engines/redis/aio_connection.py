"""A pipelined connection of the asyncio transport.

It is an `asyncio.Protocol` and not a reader task. `asyncio.run` cancels every task on Ctrl-C, and
`with` bodies that need the connection for their release would wait for the reader for ever (trap
52).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, cast

import hiredis

from lockfast.engines.redis.channels import Change
from lockfast.engines.redis.reply_parser import MISSING, Parser
from lockfast.engines.redis.transport import DOUBT, FRESH, IO, Address
from lockfast.engines.sockets import keep_alive
from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import Clock

PUSH = hiredis.PushNotification

TOGETHER = 32
"""Requests after which `put` writes at once. So the server works on them while other tasks run. If
all requests waited for the end of the loop's turn, the server and the tasks would take turns."""
LOOKS = 4  # checks of a connection within IO, the time that a request may take


class Pending(Protocol):
    """The receiver of a reply: a future, or an object with these methods of a future."""

    def done(self) -> bool:
        """Return whether the reply is no longer wanted."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Receive the reply."""

    def set_exception(self, exception: Exception, /) -> None:
        """Receive the reason why there is no reply."""

    def exception(self) -> BaseException | None:
        """Return the reason why there is no reply."""
        ...


class Confirmation(asyncio.Future[Any]):
    """The future of a change of subscriptions: its last push, or the error reply."""

    def __init__(self, change: Change, loop: asyncio.AbstractEventLoop) -> None:
        """Wait for the confirmations of a change."""
        super().__init__(loop=loop)
        self.change = change


class Connection(asyncio.Protocol):
    """One socket, its parser, and the futures of the replies that are due."""

    def __init__(
        self, address: Address, clock: Clock, on_push: Callable[[list[Any]], None]
    ) -> None:
        """Start unconnected. `on_push` gets each push, and an empty one when a connection ends.

        `clock` is the client's own, which goes on while the machine sleeps: a connection that was
        idle for that long is stale. A second clock made a simulated run differ from its replay.
        """
        self.address = address
        self.hears = False
        """Whether the answers to its subscriptions have come."""
        self.open = False
        self.served = False
        """Whether the login succeeded. Before that, nobody needs to know that it has ended."""
        self._loop = asyncio.get_running_loop()
        self._now = clock
        self._on_push = on_push
        self._reader = Parser()
        self._transport: asyncio.Transport | None = None
        self._pending: deque[Pending | None] = deque()
        self._out: list[bytes] = []
        self._asked = 0.0
        self._heard = 0.0
        self._answers = 0
        self._sent: deque[int] = deque(maxlen=LOOKS - 1)
        """How many requests had been sent at each of the last checks."""
        self._watch: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport, and start the regular checks."""
        # No `isinstance`: uvloop's transport is not a subclass of asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self.open = True
        sock = transport.get_extra_info("socket")
        if sock is not None:
            keep_alive(sock)
        self._heard = self._now()
        self._watch = self._loop.call_later(IO / LOOKS, self._check)

    def stale(self, *, heart: bool) -> bool:
        """Return whether the connection was idle for so long that the network may have dropped it.

        For the heart, also return True if it is silent: leases may expire before `_check` closes
        the connection.
        """
        if self._pending:
            return heart and self.silent()
        return self._now() - self._heard > FRESH

    def silent(self) -> bool:
        """Return whether a request has been waiting for a reply for more than a second."""
        since = max(self._heard, self._asked)
        return bool(self._pending) and self._now() - since > DOUBT

    def send(self, packet: bytes) -> asyncio.Future[Any]:
        """Send a command, in one write with others of this turn of the loop."""
        # No `loop.create_future()`, which is a call more on a hot path.
        future: asyncio.Future[Any] = asyncio.Future(loop=self._loop)
        self.put(packet, future)
        return future

    def put(self, packet: bytes, *pending: Pending | None) -> None:
        """Send packed commands. `pending` receive the replies in order; None ignores a reply."""
        if not self.open:  # it ended before the task that waited for it could continue
            self._fail(pending, "the connection ended", sent=False)
            return
        if not self._pending:
            self._asked = self._now()
        self._pending.extend(pending)
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(packet)
        if len(self._out) >= TOGETHER:
            self._flush()

    def change(self, changes: Sequence[Change]) -> list[Confirmation]:
        """Subscribe to channels, or no longer, and return the futures of the answers."""
        futures = [Confirmation(change, self._loop) for change in changes]
        self.put(b"".join(change.packet() for change in changes), *futures)
        return futures

    def post(self, packet: bytes) -> None:
        """Send a command now, after the others, and ignore its reply."""
        self._pending.append(None)
        self._out.append(packet)
        self._flush()

    def _flush(self) -> None:
        if self._out and self._transport is not None:
            out, self._out = self._out, []
            if self.open:  # uvloop raises RuntimeError if anything is written after the end
                self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def data_received(self, data: bytes) -> None:
        """Pass replies to their receivers, in the order of the requests."""
        self._heard = self._now()
        reader, pending, count, pushes = self._reader, self._pending, 0, 0
        try:
            plain = reader.begin(data)
            take, more = reader.take if plain else reader.gets, reader.has_data
            reply = take()
            while reply is not MISSING:
                count += 1
                if type(reply) is PUSH and not self._completes(reply):
                    pushes += 1
                else:
                    future = pending.popleft()
                    if future is not None and not future.done():
                        future.set_result(reply)
                if not more():
                    break
                reply = take()
            else:
                if plain:
                    reader.keep(data, count)
            self._answers += count - pushes
        except Exception as error:  # noqa: BLE001  # the parser raises many types, and no caller catches them
            self.drop(f"not the Redis protocol: {error}")

    def _completes(self, push: list[Any]) -> bool:
        """Return whether a push is the last confirmation of the change whose answer is due next."""
        first = self._pending[0] if self._pending else None
        if isinstance(first, Confirmation) and first.change.confirm(push):
            return first.change.done
        self._on_push(push)
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the requests that are under way."""
        self.drop(str(error or "the server closed the connection"))

    def drop(self, why: str) -> None:
        """Close the connection and fail the requests under way, whose outcome is unknown."""
        self.open = False
        if self._watch is not None:
            self._watch.cancel()
        if self._transport is not None:
            self._transport.abort()
        pending, self._pending = self._pending, deque()
        self._fail(pending, why, sent=True)
        if self.served:
            self.served = False
            self._on_push([])  # the listener must subscribe again, perhaps to another server

    def _fail(self, pending: Iterable[Pending | None], why: str, *, sent: bool) -> None:
        for future in pending:
            if future is not None and not future.done():
                future.set_exception(
                    EngineUnavailable(f"Redis at {self.address}: {why}", sent=sent)
                )
                future.exception()  # or asyncio logs it as never retrieved if its task is gone

    def _check(self) -> None:
        """Close the connection if a request has waited for nearly IO.

        This needs one timer per connection, not per request. Single bytes, and replies to other
        requests, do not extend the time of a request.
        """
        if len(self._sent) == LOOKS - 1 and self._answers < self._sent[0]:
            self.drop("no answer in time")
            return
        self._sent.append(self._answers + len(self._pending))
        self._watch = self._loop.call_later(IO / LOOKS, self._check)
