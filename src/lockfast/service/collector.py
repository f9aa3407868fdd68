"""Group commit: sends the claims, or the resignations, of all connections together.

What arrives while a call of the engine is under way is collected, and goes out when it returns.
There is no timer, and what finds no call under way is sent at once. A second call beside the first
would carry fewer claims, and cost the engine more: a tenth to a fifth of its processor time.
Nothing is created for a request except its entry: no future, no event and no task.

A call that does not return must not keep everything else waiting, since the engine may have many
servers. So nothing waits for a call that has taken AGE seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Hashable, Sequence
from math import inf

from lockfast.errors import EngineUnavailable, LockfastError
from lockfast.port import Ask
from lockfast.runtime.base import Clock
from lockfast.service.entry import Answer, Entry
from lockfast.service.replies import internal
from lockfast.service.tasks import Tasks

AGE = 0.1  # seconds after which a call is taken for one that does not return
MOST = 16  # calls under way then
SIZE = 64  # claims in one call
Send = Callable[[Sequence[Ask], float], Awaitable[Sequence[Answer]]]


class Collector:
    """All requests of one kind."""

    def __init__(
        self, send: Send, key: Callable[[Ask], Hashable], tasks: Tasks, clock: Clock, size: int
    ) -> None:
        """Begin empty.

        `key`: claims with the same key go to the engine one after the other, in the order in which
        they arrived, each in another call. `size`: how many claims one call carries at most.
        """
        self._send = send
        self._key = key
        self._tasks = tasks
        self._now = clock
        self._size = size
        self._ready: deque[Entry] = deque()
        self._alone: deque[Entry] = deque()
        """Entries of calls that the engine refused. Each is sent again by itself."""
        self._keys: dict[Hashable, deque[Entry] | None] = {}
        """For each key of which an entry is ready or under way: those that wait for it."""
        self.waiting = 0
        """How many entries have no answer."""
        self._calls = 0
        self._latest = 0
        """The number of the task that has begun last. It alone sends what comes."""
        self._begun = -inf
        """When that task began its call."""
        self._starting = False
        """Whether a task was started that has not collected its entries yet."""
        self._timer: asyncio.TimerHandle | None = None

    def add(self, entry: Entry) -> None:
        """Send a claim as soon as possible."""
        self.waiting += 1
        key = self._key(entry.ask)
        if key in self._keys:
            waiting = self._keys[key]
            if waiting is None:
                waiting = self._keys[key] = deque()
            waiting.append(entry)
            return
        self._keys[key] = None
        self._ready.append(entry)
        self._begin()

    def _begin(self) -> None:
        """Begin a call if there is something to send and a call may begin."""
        if self._starting or not (self._ready or self._alone):
            return
        left = self._begun + AGE - self._now()
        if not self._calls or (left <= 0.0 and self._calls < MOST):
            self._starting = True
            self._calls += 1
            self._latest += 1
            self._tasks.start(self._run(self._latest))
        elif self._timer is None and left > 0.0:
            self._timer = asyncio.get_running_loop().call_later(left, self._look)

    def _look(self) -> None:
        self._timer = None
        self._begin()

    async def _run(self, number: int) -> None:
        """Send calls until there is nothing to send, or another task has begun, as one of the calls
        took too long. It collects when its task starts, after all connections that have something
        to read.
        """
        self._starting = False
        try:
            while number == self._latest and (entries := self._take()):
                self._begun = self._now()
                self._begin()  # what is left waits for this call, or AGE seconds
                await self._call(entries)
        finally:
            self._calls -= 1
            if number == self._latest:  # the others have not returned for long
                self._begun = -inf
        self._begin()

    def _take(self) -> list[Entry]:
        """Return the entries of the next call."""
        now = self._now()
        taken: list[Entry] = []
        while self._alone and not taken:
            self._check(self._alone.popleft(), now, taken)
        if not taken:
            while self._ready and len(taken) < self._size:
                self._check(self._ready.popleft(), now, taken)
        return taken

    def _check(self, entry: Entry, now: float, taken: list[Entry]) -> None:
        """Add an entry to a call, unless it was not sent in time or its client has left."""
        if entry.answers.unwanted():
            self._leave(entry)
        elif entry.deadline <= now:
            said = "the requests before it took too long"
            self._answer(entry, EngineUnavailable(said, sent=False))
        else:
            taken.append(entry)

    async def _call(self, entries: list[Entry]) -> None:
        deadline = max(entry.deadline for entry in entries)
        answers: Sequence[Answer]
        try:
            answers = await self._send([entry.ask for entry in entries], deadline)
            if len(answers) != len(entries):
                raise ValueError(f"{len(answers)} answers to {len(entries)} claims")
        except EngineUnavailable as error:
            answers = [error] * len(entries)
        except LockfastError as error:
            if len(entries) > 1:  # one of them is at fault, and the others are strangers to it
                for entry in entries:
                    entry.ask.alone = True
                self._alone.extend(entries)
                return
            answers = [error]
        except Exception as error:  # noqa: BLE001  # it is logged
            answers = [internal(error)] * len(entries)
        for entry, answer in zip(entries, answers, strict=True):
            self._answer(entry, answer)

    def _answer(self, entry: Entry, answer: Answer) -> None:
        self._leave(entry)
        entry.put(answer)

    def _leave(self, entry: Entry) -> None:
        """Make the next entry with the same key ready."""
        self.waiting -= 1
        key = self._key(entry.ask)
        waiting = self._keys[key]
        if waiting:
            self._ready.append(waiting.popleft())
        else:
            del self._keys[key]
