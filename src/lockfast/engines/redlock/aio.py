"""The asyncio transport: to each node, a pipelined connection for all tasks and the heart's own."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from lockfast.engines.redis.aio import AioTransport as RedisAio
from lockfast.engines.redis.aio_connection import Connection
from lockfast.engines.redis.transport import IO, Address, Login
from lockfast.engines.redlock.transport import AGAIN, Answer, Hear, ignored
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.runtime.base import Clock


class Gathering:
    """Collects the nodes' answers to one request. `ended` is done when no more are awaited."""

    __slots__ = ("_hear", "_loop", "_open", "_timer", "count", "ended", "late", "when")

    def __init__(
        self,
        hear: Hear,
        count: int,
        nodes: int,
        seconds: float,
        late: Callable[[int, Any], object],
    ) -> None:
        """Expect `count` replies of each node within `seconds`. Later ones go to `late`."""
        self.late = late
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self._hear = hear
        self._open = nodes
        self.count = count
        self.when = self._loop.time() + max(seconds, 0.0)
        self._timer = self._loop.call_at(self.when, self.end)

    def answer(self, index: int, answer: Answer) -> None:
        """Pass a node's answer to `hear`, and wait for others as long as that says."""
        if self.ended.done():
            return
        self._open -= 1
        try:
            patience = self._hear(index, answer)
        except Exception as error:  # noqa: BLE001  # whatever it is, the waiting task raises it
            self.ended.set_exception(error)
            return
        if not patience or not self._open:
            self.end()
        elif patience < math.inf:
            sooner = self._loop.time() + patience
            if sooner < self.when:
                self._timer.cancel()
                self.when = sooner
                self._timer = self._loop.call_at(sooner, self.end)

    def end(self) -> None:
        """End the wait."""
        if not self.ended.done():
            self.ended.set_result(None)

    async def wait(self) -> None:
        """Wait until the answers are enough or the time is over."""
        try:
            await self.ended
        finally:
            self._timer.cancel()
            self.end()


class Slot:
    """Receives one node's replies for a gathering. The connection uses it like a future."""

    __slots__ = ("_gathering", "_index", "_replies")

    def __init__(self, gathering: Gathering, index: int) -> None:
        """Start without a reply."""
        self._gathering = gathering
        self._index = index
        self._replies: list[Any] = []

    def done(self) -> bool:
        """Return False, since a reply is wanted even when nobody waits for it any more."""
        return False

    def set_result(self, result: Any, /) -> None:
        """Receive a reply, in time or late."""
        if self._gathering.ended.done():
            self._gathering.late(self._index, result)
            return
        self._replies.append(result)
        if len(self._replies) == self._gathering.count:
            self._gathering.answer(self._index, self._replies)

    def set_exception(self, exception: Exception, /) -> None:
        """Receive an error in place of all replies. The connection calls this once per reply."""
        if len(self._replies) < self._gathering.count:
            self._replies = [None] * self._gathering.count
            assert isinstance(exception, EngineError)  # noqa: S101  # for the type checker
            self._gathering.answer(self._index, exception)

    def exception(self) -> BaseException | None:
        """Return None, since no error is kept."""
        return None


class AioTransport:
    """The connections of an asyncio client."""

    def __init__(self, nodes: Sequence[Address], login: Login, clock: Clock) -> None:
        """Create a transport without connections."""
        self.nodes = nodes
        self.late: Callable[[int, Any], object] = ignored
        self.lost: Callable[[int], object] = bool
        self.owing: Callable[[], object] = bool
        self._now = clock
        self._loop = asyncio.get_running_loop()
        redis = self._redis = RedisAio(login, clock, self._ended)
        self._work, self._hearts = redis.work, redis.hearts
        self.pause, self.rouse = redis.pause, redis.rouse
        self.forget, self.reset = redis.forget, redis.reset
        self.change, self.listen = redis.change, redis.listen
        self._closed = False
        self._underway: dict[tuple[Address, bool], asyncio.Task[Connection]] = {}
        self._down: dict[Address, tuple[float, float, EngineError]] = {}
        """Nodes that were not reached: when to try again, the length of this pause, and why."""

    def _ended(self) -> None:
        for index, address in enumerate(self.nodes):
            connection = self._work.get(address)
            if connection is not None and not connection.open:
                self.lost(index)

    async def scatter(
        self,
        requests: Sequence[bytes | None],
        count: int,
        deadline: float,
        hear: Hear | None,
        *,
        heart: bool = False,
    ) -> None:
        """Write to all nodes in one turn of the loop, and gather their answers."""
        shelf = self._hearts if heart else self._work
        gathering = None
        if hear is not None:
            asked = len(requests) - requests.count(None)
            gathering = Gathering(hear, count, asked, deadline - self._now(), self.late)
        for index, packet in enumerate(requests):
            if packet is None:
                continue
            connection = shelf.get(self.nodes[index])
            if connection is None or not connection.open or connection.stale(heart=heart):
                self._send_later(index, packet, count, gathering, heart=heart)
            elif gathering is None:
                connection.put(packet, *[None] * count)
            elif count == 1:
                connection.put(packet, Slot(gathering, index))
            else:
                connection.put(packet, *[Slot(gathering, index)] * count)
        if gathering is not None:
            await gathering.wait()

    def catch_up(self) -> bool:
        """Do nothing, since the event loop notices late replies and the end of a connection."""
        return False

    def _send_later(
        self, index: int, packet: bytes, count: int, gathering: Gathering | None, *, heart: bool
    ) -> None:
        """Send a request once there is a connection, even if nobody waits for the answer by then. A
        lease is safer on all nodes than on the first three, and a release must follow its claim.
        """
        address = self.nodes[index]
        opening = self._opening_to(address, heart=heart)
        if opening is None:
            if gathering is not None:
                self._loop.call_soon(gathering.answer, index, self._down[address][2])
            return

        def send(task: asyncio.Task[Connection]) -> None:
            if task.cancelled() or task.exception() is not None:
                if gathering is not None:
                    closing = EngineUnavailable("the client closes", sent=False)
                    gathering.answer(index, closing if task.cancelled() else self._down[address][2])
                self.lost(index)
            elif gathering is None:
                task.result().put(packet, *[None] * count)
            else:
                task.result().put(packet, *[Slot(gathering, index)] * count)

        opening.add_done_callback(send)

    def _opening_to(self, address: Address, *, heart: bool) -> asyncio.Task[Connection] | None:
        """Return the task that connects to a node, a new one if needed, or None after a failure."""
        opening = self._underway.get((address, heart))
        if opening is None:
            if address in self._down and self._now() < self._down[address][0]:
                return None
            known = (self._hearts if heart else self._work).get(address)
            opening = self._loop.create_task(self._redis.tried(known, address, IO))
            self._underway[address, heart] = opening
            opening.add_done_callback(partial(self._reached, address, heart))
        return opening

    async def ear(self, address: Address, deadline: float) -> Connection:
        """Return the heart's connection to a node, on which messages arrive."""
        ear = self._hearts.get(address)
        if ear is not None and ear.open and (ear.hears or not ear.stale(heart=True)):
            return ear
        opening = self._opening_to(address, heart=True)
        if opening is None:
            raise self._down[address][2]
        await asyncio.wait([opening], timeout=max(deadline - self._now(), 0.0))
        if not opening.done():
            raise EngineUnavailable(f"no connection to Redis at {address} in time", sent=False)
        return opening.result()

    def _reached(self, address: Address, heart: bool, task: asyncio.Task[Connection]) -> None:  # noqa: FBT001  # bound by partial
        del self._underway[address, heart]
        if task.cancelled():
            return
        error = task.exception()
        if error is None and self._closed:
            task.result().drop("closed")
            return
        if error is None:
            self._down.pop(address, None)
            (self._hearts if heart else self._work)[address] = task.result()
            return
        pause = min(self._down[address][1] * 2 if address in self._down else AGAIN[0], AGAIN[1])
        why = error
        if not isinstance(why, EngineError):
            why = EngineUnavailable(f"Redis at {address}: {error}", sent=False)
        self._down[address] = (self._now() + pause, pause, why)

    def post(self, request: bytes) -> None:
        """Send every connected node a request, after all earlier ones."""
        for connection in self._work.values():
            if connection.open:
                connection.post(request)

    async def close(self) -> None:
        """Close all connections, also those that are just being opened."""
        self._closed = True
        underway = list(self._underway.values())
        for task in underway:
            task.cancel()
        if underway:
            await asyncio.wait(underway, timeout=1.0)
        await self._redis.close()
