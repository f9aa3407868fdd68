"""A lane: collects the requests that arrive while calls of the engine are under way.

They go out together when a call returns. This is group commit: there is no timer, and a request
that finds the lane free is sent at once, by itself. After a call that several requests shared, more
may follow in the same moment, because their callers go on with the replies. So the next request
does not go by itself then. In asyncio, a call collects its requests when its task starts, which is
after all callers that were just answered have run.

A signal handler or a finalizer can use the lane between any two bytecodes of it, in the same
thread, and can wait there for another caller. So a lane has no mutex, which the interrupted thread
would hold meanwhile. It consists of two dicts. Each step is one operation on one of them, which is
atomic, the lane is consistent after each, and every loop runs over a copy. A request belongs to
whoever has popped it: either to the leader of a call, who sends it, or to its own caller, who has
left. Nothing relies on a caller that comes back: each request looks after itself when it has waited
for AGE seconds.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

from lockfast.engines.lane_call import Call
from lockfast.engines.lane_entry import Entry
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import Ask
from lockfast.runtime.base import Event, Runtime

R = TypeVar("R")
AGE = 0.1  # seconds that a request waits for calls under way, at most
Send = Callable[[Sequence[Ask], float], Awaitable[list[R]]]
Leading = dict[object, Call[R]]
"""By thread or task: the call that it leads."""


class Lane(Generic[R]):
    """All requests of one kind: claims, renewals or resignations. Thread-safe."""

    def __init__(  # noqa: PLR0913, PLR0917  # made in one place
        self,
        send: Send[R],
        key: Callable[[Ask], Hashable],
        runtime: Runtime,
        size: int,
        at_once: int,
        leading: Leading[R],
    ) -> None:
        """Begin empty.

        `send`: sends several claims in one call, and returns a reply for each.
        `key`: requests with the same key are never in one call.
        `size`: how many claims are sent together.
        `at_once`: how many calls may be under way. Threads that begin one in the same moment may
        exceed it.
        `leading`: shared by all lanes of an engine, and empty.
        """
        self._send = send
        self._key = key
        self._runtime = runtime
        self._size = size
        self._at_once = at_once
        self._leading = leading
        self._calls: dict[object, None] = {}  # those that keep others waiting
        self._pending: dict[Entry[R], None] = {}  # in the order of arrival
        self._shared = False  # whether several requests shared the latest call

    def enter(self) -> object | None:
        """Begin a call for one request alone. None if the request must `wait`."""
        if self._leading:
            self._excuse()
        calls = self._calls
        if self._pending or self._shared or len(calls) >= self._at_once:
            return None
        call = object()
        calls[call] = None
        return call

    def leave(self, call: object) -> None:
        """End a call. Another request may lead the next one."""
        self._calls.pop(call, None)
        if self._pending:
            self._hand_over()

    async def through(self, asks: Sequence[Ask], deadline: float) -> list[R]:
        """Send a request by itself if the lane is free, or else together with others."""
        call = self.enter()
        if call is not None:
            try:
                return await self._send(asks, deadline)
            finally:
                self.leave(call)
        replies = await self.wait(asks, deadline)
        return await self._send(asks, deadline) if replies is None else list(replies)

    async def wait(self, asks: Sequence[Ask], deadline: float) -> Sequence[R] | None:
        """Send this request together with others, and return the replies to it.

        Return None if it must be sent by itself: because a request before it has the same key, or
        because the engine refused a whole call, and one of its requests is at fault.
        """
        if any(ask.alone for ask in asks):
            return None
        keys = [self._key(ask) for ask in asks]
        due = self._runtime.now() + AGE
        entry: Entry[R] = Entry(asks, keys, deadline, due, list(self._calls))
        try:
            self._pending[entry] = None
            while not entry.done:
                event = entry.event = self._runtime.event()  # before it looks: no wake is missed
                if entry in self._pending and self._may_go(entry):
                    await self._lead(entry)
                if not entry.done:
                    await self._pause(entry, event)
        finally:
            if not entry.done:
                self._withdraw(entry)
        if entry.error is not None:
            raise entry.error
        return entry.replies

    async def _pause(self, entry: Entry[R], event: Event) -> None:
        """Wait until there is something to do for this request. Raise at its deadline."""
        waiting = entry in self._pending
        until = min(entry.deadline, entry.due) if waiting else entry.deadline
        if await event.wait(until) or self._runtime.now() < entry.deadline or entry.done:
            return
        # It was not sent if it is still there to be taken out. Otherwise nobody here can know.
        unsent = self._withdraw(entry)
        said = "the requests before it took too long" if unsent else "no answer in time"
        raise EngineUnavailable(said, sent=not unsent)

    def _may_go(self, entry: Entry[R]) -> bool:
        """Return whether a call may begin, because the lane is free or this request is due."""
        if len(self._calls) < self._at_once:
            return True
        if self._runtime.now() < entry.due:
            return False
        # These calls have taken longer than AGE, or were interrupted before they could leave.
        for call in entry.before:
            self._calls.pop(call, None)
        return True

    async def _lead(self, leader: Entry[R]) -> None:
        """Send the next requests together. A thread does so to the end. A task only begins it."""
        me = self._runtime.worker()[0]
        outer = self._leading.get(me)  # set if this is a signal handler that interrupted a leader
        call = Call(leader, leader.deadline + AGE, self._size)
        try:
            self._leading[me] = call
            self._calls[call.mark] = None
            await self._runtime.apart(self._go(call))
        except BaseException:  # Ctrl-C, before or while a thread has sent them
            self._drop(call.entries())
            self.leave(call.mark)
            raise
        finally:
            if outer is None:
                self._leading.pop(me, None)
            else:
                self._leading[me] = outer

    def _collect(self, call: Call[R]) -> None:
        """Take the requests of a call out of the lane, in the order of arrival."""
        for entry in list(self._pending):
            if entry.done:  # its caller was interrupted while it took it out
                self._pending.pop(entry, None)
                continue
            place = call.place(entry)
            if place is not None:
                place.append(entry)  # before it is popped: an exception must not lose it
                if self._pending.pop(entry, entry) is not None:
                    place.pop()  # its caller, or another leader, was faster
            if call.room <= 0:
                break
        if self._pending:
            self._hand_over()

    async def _go(self, call: Call[R]) -> None:
        """Send requests together, and hand each its own replies, or an error of its own."""
        live: list[Entry[R]] = []
        try:
            self._collect(call)
            for entry in call.followers:
                entry.answered(None)
            # The last look before the call: what was given up since must not be sent any more.
            live += [entry for entry in call.batch if not entry.done]
            if live:
                self._shared = len(live) > 1
                asks = [ask for entry in live for ask in entry.asks]
                replies = iter(await self._send(asks, max(map(_deadline, live))))
                for entry in live:
                    entry.answered([next(replies) for _ in entry.asks])
        except EngineRefused:
            for entry in live:
                entry.failed(None)
        except EngineUnavailable as error:
            for entry in live:
                entry.failed(EngineUnavailable(error.message, sent=error.sent))
        except BaseException:
            self._drop(call.entries())
            raise
        finally:
            self.leave(call.mark)

    def _drop(self, entries: Sequence[Entry[R]]) -> None:
        """Fail requests whose leader is gone, or busy elsewhere. They may have been sent."""
        for entry in entries:
            self._pending.pop(entry, None)
            if not entry.done:
                entry.failed(EngineUnavailable("the call was interrupted", sent=True))

    def _excuse(self) -> None:
        """Fail the requests of others whose leader was interrupted by the calling signal handler.

        The handler may wait for one of them, for example for a release. They cannot be answered
        before it returns, so their callers send them again.
        """
        call = self._leading.get(self._runtime.worker()[0])
        if call is not None:
            self._drop(call.others())

    def _withdraw(self, entry: Entry[R]) -> bool:
        """Take out a request whose caller leaves. Return whether it was not sent, for certain."""
        entry.done = True  # first: whoever has taken it, and has not sent it yet, leaves it out
        unsent = self._pending.pop(entry, entry) is None
        if self._pending:  # its caller may have been about to lead
            self._hand_over()
        return unsent

    def _hand_over(self) -> None:
        """Wake the request that leads the next call: the one with the latest deadline, which may
        take all others along.
        """
        if len(self._calls) < self._at_once:
            first = list(self._pending)[: self._size]
            waiting = [entry for entry in first if not entry.done]
            if waiting:
                max(waiting, key=_deadline).wake()


def _deadline(entry: Entry[R]) -> float:
    return entry.deadline
