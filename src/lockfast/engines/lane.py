"""A lane: collects the requests that arrive while a call of the engine is under way.

They go out together when the call returns. This is group commit: there is no timer, and a request
that finds the lane free is sent at once, by itself.

A caller can be cancelled, or interrupted by a signal handler that uses the same lane in the same
thread. So nothing here relies on a caller that comes back: a call that has been under way for AGE
seconds does not keep other requests waiting any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import Ask
from lockfast.runtime.base import Event, Runtime
from lockfast.runtime.mutex import Mutex

R = TypeVar("R")
AGE = 0.1  # seconds after which a call under way does not keep other requests waiting any more
ENOUGH = 1.0  # seconds that the leader of a call should have until its deadline
Send = Callable[[Sequence[Ask], float], Awaitable[Sequence[R]]]


class Call:
    """A call of the engine that is under way."""

    __slots__ = ("began",)

    def __init__(self, began: float) -> None:
        """Note when it began."""
        self.began = began


class Entry(Generic[R]):
    """A request that waits in the lane, or was sent together with others."""

    __slots__ = ("asks", "deadline", "done", "error", "event", "keys", "replies", "sent")

    def __init__(self, asks: Sequence[Ask], keys: Sequence[Hashable], deadline: float) -> None:
        """Describe a request that was not sent yet."""
        self.asks = asks
        self.keys = keys
        self.deadline = deadline
        self.event: Event | None = None
        self.sent = self.done = False
        self.replies: Sequence[R] | None = None
        self.error: Exception | None = None

    def wake(self) -> None:
        """Make the caller look at the lane again."""
        event = self.event
        if event is not None:
            event.set()

    def answered(self, replies: Sequence[R] | None) -> None:
        """End the request with its own replies. None: it must be sent by itself."""
        self.replies = replies
        self.done = True
        self.wake()

    def failed(self, error: Exception | None) -> None:
        """End the request without replies, and have its claims sent by themselves from now on."""
        for ask in self.asks:
            ask.alone = True
        self.error = error
        self.done = True
        self.wake()


class Lane(Generic[R]):
    """All requests of one kind: claims, renewals or resignations. Thread-safe."""

    def __init__(
        self,
        send: Send[R],
        key: Callable[[Ask], Hashable],
        runtime: Runtime,
        size: int,
        at_once: int,
    ) -> None:
        """Begin empty.

        `send`: sends several claims in one call, and returns a reply for each.
        `key`: requests with the same key are never in one call.
        `size`: how many claims are sent together.
        `at_once`: how many calls may be under way.
        """
        self._send = send
        self._key = key
        self._runtime = runtime
        self._size = size
        self._at_once = at_once
        # Re-entrant: every loop inside runs over a copy, as an interruption may change the lane.
        self._lock = Mutex()
        self._calls: dict[Call, None] = {}  # those that keep others waiting, the oldest first
        self._pending: dict[Entry[R], None] = {}  # in the order of arrival

    def enter(self) -> Call | None:
        """Begin a call for one request alone. None if the request must `wait`."""
        with self._lock:
            now = self._runtime.now()
            if self._pending or not self._free(now):
                return None
            return self._begin(now)

    def leave(self, call: Call) -> None:
        """End a call. Another request may lead the next one."""
        with self._lock:
            self._calls.pop(call, None)
            self._hand_over()

    async def wait(self, asks: Sequence[Ask], deadline: float) -> Sequence[R] | None:
        """Send this request together with others, and return the replies to it.

        Return None if it must be sent by itself: because a request before it has the same key, or
        because the engine refused the whole call, and one of its requests is at fault.
        """
        entry: Entry[R] = Entry(asks, [self._key(ask) for ask in asks], deadline)
        try:
            with self._lock:
                self._pending[entry] = None
            while not entry.done:
                event = entry.event = self._runtime.event()  # before `_collect`: no wake is missed
                batch = self._collect(entry)
                if batch is not None:
                    work = self._runtime.apart(self._go(*batch, deadline))
                else:
                    work = self._pause(entry, event)
                # Without the mutex: a signal handler that waits may have interrupted this lane.
                await self._lock.aside(work)
        finally:
            if not entry.sent:
                self._withdraw(entry)
        if entry.error is not None:
            raise entry.error
        return entry.replies

    async def _pause(self, entry: Entry[R], event: Event) -> None:
        """Wait until there is something to do for this request. Raise at its deadline."""
        until = entry.deadline
        with self._lock:
            if entry.done:
                return
            if next(iter(self._pending), None) is entry:  # it looks after calls that hang
                oldest = next(iter(self._calls), None)
                began = self._runtime.now() if oldest is None else oldest.began
                until = min(until, began + AGE)
        if not await event.wait(until) and self._runtime.now() >= entry.deadline:
            said = "no answer in time" if entry.sent else "the requests before it took too long"
            raise EngineUnavailable(said, sent=entry.sent)

    def _collect(self, leader: Entry[R]) -> tuple[list[Entry[R]], list[Entry[R]], Call] | None:
        """Take the next requests out of the lane, if they may be sent now. Return those that share
        a call, those that follow by themselves, as one in the call has their key, and the call.
        """
        with self._lock:
            now = self._runtime.now()
            if leader.sent or not self._free(now):
                return None
            batch: list[Entry[R]] = []
            others: list[Entry[R]] = []
            taken: set[Hashable] = set()
            room = self._size
            for entry in list(self._pending):
                if not taken.isdisjoint(entry.keys):
                    others.append(entry)
                elif batch and len(entry.keys) > room:
                    break
                else:
                    batch.append(entry)
                    room -= len(entry.keys)
                    if room <= 0:
                        break
                taken.update(entry.keys)
            for entry in (*batch, *others):
                entry.sent = True
                self._pending.pop(entry, None)
            call = self._begin(now)
            self._watch()
            return batch, others, call

    async def _go(
        self, batch: Sequence[Entry[R]], others: Sequence[Entry[R]], call: Call, deadline: float
    ) -> None:
        """Send requests together, and hand each its own replies, or an error of its own."""
        for entry in others:
            entry.answered(None)
        asks = [ask for entry in batch for ask in entry.asks]
        try:
            replies = iter(await self._send(asks, deadline))
            for entry in batch:
                entry.answered([next(replies) for _ in entry.asks])
        except EngineRefused:
            for entry in batch:
                entry.failed(None)
        except EngineUnavailable as error:
            for entry in batch:
                entry.failed(EngineUnavailable(error.message, sent=error.sent))
        except BaseException:
            for entry in batch:
                entry.failed(EngineUnavailable("the call was interrupted", sent=True))
            raise
        finally:
            self.leave(call)

    def _withdraw(self, entry: Entry[R]) -> None:
        """Take out a request whose caller has left. Its caller may have been about to lead."""
        with self._lock:
            self._pending.pop(entry, None)
            self._hand_over()
            self._watch()

    def _hand_over(self) -> None:
        """Wake the request that leads the next call: the first one with enough time, because the
        call ends at the deadline of its leader.
        """
        if self._pending and self._free(now := self._runtime.now()):
            due = list(self._pending)[: self._size]
            max(due, key=lambda entry: min(entry.deadline, now + ENOUGH)).wake()

    def _watch(self) -> None:
        """Wake the first request: it is the one that notices a call that hangs."""
        first = next(iter(self._pending), None)
        if first is not None:
            first.wake()

    def _free(self, now: float) -> bool:
        """Return whether another call may begin. Forget those that have taken too long."""
        for call in list(self._calls):
            if call.began + AGE > now:
                break
            self._calls.pop(call, None)
        return len(self._calls) < self._at_once

    def _begin(self, now: float) -> Call:
        call = Call(now)
        self._calls[call] = None
        return call
