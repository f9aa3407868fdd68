"""The blocking transport: all threads of a client share one connection to a member."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from queue import Empty, SimpleQueue
from typing import Any

import grpc

from lockfast.engines.etcd.failures import crowded
from lockfast.engines.etcd.transport import Link, Login, T, Transport
from lockfast.runtime.base import Clock
from lockfast.runtime.mutex import Mutex

_buried: list[
    Link
] = []  # a parent's channels, in a child: their end would tell the parent's server


AT_ONCE = 16  # claims under way: of five hundred threads that ask at once, none had its answer read
# within a second


class ThreadMutex:
    """One thread at a time. Again, if it has it: a signal handler may come in between."""

    def __init__(self, clock: Clock) -> None:
        """Begin free."""
        self._now = clock
        self._lock = Mutex()

    async def hold(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """Block until it is our turn, but no longer than that."""
        if self._lock.inside():
            return await work()
        try:
            if not self._lock.acquire(timeout=max(deadline - self._now(), 0.0)):
                raise crowded()
            return await work()
        finally:
            if self._lock.inside():  # also if Ctrl-C came right behind `acquire`
                self._lock.release()


def _turns() -> SimpleQueue[None]:
    turns: SimpleQueue[None] = SimpleQueue()
    for _ in range(AT_ONCE):
        turns.put(None)
    return turns


class ThreadTransport(Transport):
    """Channels of a blocking client."""

    def __init__(self, login: Login, clock: Clock) -> None:
        """Nothing is opened yet."""
        super().__init__(login, clock)
        # Both are queues, which a signal handler may use while its thread is inside of one.
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._turns = _turns()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)  # noqa: ASYNC251  # driven, so it must block

    def mutex(self) -> ThreadMutex:
        """Make a mutex."""
        return ThreadMutex(self.now)

    def _open(self, address: str) -> Link:
        return Link(address, self._login.channel()(address))

    def _blocking(self, address: str) -> grpc.Channel:
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = self._open(address)
        channel: grpc.Channel = link.channel
        return channel

    def enter(self, deadline: float) -> bool:
        """Wait for a turn to claim."""
        try:
            self._turns.get(timeout=max(deadline - self.now(), 0.0))
        except Empty:
            return False
        return True

    def leave(self) -> None:
        """End the turn: another may begin."""
        self._turns.put(None)

    async def _send(self, call: Any, request: bytes, timeout: float) -> bytes:
        reply: bytes = call(request, timeout=timeout, metadata=self._metadata)
        return reply

    async def _send_all(self, call: Any, requests: Sequence[bytes], timeout: float) -> list[bytes]:
        sent = [call.future(each, timeout=timeout, metadata=self._metadata) for each in requests]
        return [each.result() for each in sent]

    async def pause(self, deadline: float | None) -> bool:
        """Block until the bell."""
        left = None if deadline is None else max(deadline - self.now(), 0.0)
        try:
            self._bell.get(timeout=left)
        except Empty:
            return False
        while not self._bell.empty():  # two may have rung at once; nobody else takes from it
            self._bell.get_nowait()
        return True

    def rouse(self) -> None:
        """Ring."""
        if self._bell.empty():
            self._bell.put(None)

    def reset(self) -> None:
        """Leave the parent's channels as they are, for ever."""
        _buried.extend(self._links.values())
        self._links = {}
        self._bell, self._turns = SimpleQueue(), _turns()  # threads that are not here had some

    async def close(self) -> None:
        """Close all channels."""
        links, self._links = self._links, {}
        for link in links.values():
            link.channel.close()
