"""The requests that wait for a lock, and how they hear that they need not wait any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from itertools import count

from lockfast.engines.remote import messages
from lockfast.engines.remote.messages import Woken
from lockfast.port import CLIENT
from lockfast.service.caller import Caller
from lockfast.service.hearing import Hearing

MOST = 10_000  # requests that wait at once. Each one is a task, a connection and a waiter


class Poll:
    """One request that may have to wait."""

    __slots__ = ("_asleep", "caller", "denied", "id", "over", "woken")

    def __init__(self, id: str, caller: Caller) -> None:  # noqa: A002  # it is the id
        """Wait for nothing yet."""
        self.id = id
        self.caller = caller
        """Who has sent it. It changes when the configuration is read again."""
        self.woken = False
        """Whether the engine should be asked now."""
        self.over = False
        """Whether the request must be answered now."""
        self.denied = False
        """Whether its client is not admitted any more."""
        self._asleep: asyncio.Future[None] | None = None

    async def sleep(self, seconds: float) -> None:
        """Sleep until it is woken or over, or for some seconds."""
        if self.woken or self.over:
            return
        loop = asyncio.get_running_loop()
        asleep = self._asleep = loop.create_future()
        timer = loop.call_later(seconds, _finish, asleep)
        try:
            await asleep
        finally:
            timer.cancel()
            self._asleep = None

    def wake(self) -> None:
        """Ask the engine soon."""
        self.woken = True
        if self._asleep is not None:
            _finish(self._asleep)

    def end(self) -> None:
        """Answer the request soon."""
        self.over = True
        if self._asleep is not None:
            _finish(self._asleep)


class Ear:
    """Hears the wakes of one client, whose claims are those of several requests."""

    def __init__(self, client: str, epoch: int) -> None:
        """Hear nothing yet."""
        self.client = client
        self.epoch = epoch
        self.polls: dict[str, set[Poll]] = {}
        self.on = False

    def wake(self, frame: bytes) -> None:
        """Wake the requests that a wake is about."""
        woken = messages.reply(frame)
        if isinstance(woken, Woken):
            polls = self.polls.get(woken.id)
            if polls is None and len(woken.id) <= CLIENT:  # wakes may be lost: everybody asks
                polls = {poll for each in self.polls.values() for poll in each}
            for poll in polls or ():
                poll.wake()


class Polls:
    """All of them, by client and claim."""

    def __init__(self, own: str) -> None:
        """Begin with none. `own`: the client of the ids that this replica makes. Once a request of
        it has waited, it is heard for good: to begin anew costs the engine more than to go on.
        """
        self._own = own
        self._ears: dict[str, Ear] = {}
        self._epochs = count(1)
        self._all: set[Poll] = set()
        self.waiting: set[Poll] = set()
        """Those that have to wait."""

    def add(self, poll: Poll) -> None:
        """Expect wakes, before the claim is sent: one may come before the claim's standing does."""
        self._all.add(poll)
        client = poll.id[:CLIENT]
        ear = self._ears.get(client)
        if ear is None:
            ear = self._ears[client] = Ear(client, next(self._epochs))
        ear.polls.setdefault(poll.id, set()).add(poll)

    def wait(self, poll: Poll, hearing: Hearing) -> None:
        """Hear wakes from now on. The first one comes as soon as none can be lost any more."""
        self.waiting.add(poll)
        ear = self._ears[poll.id[:CLIENT]]
        if not ear.on:
            ear.on = True
            hearing.start(ear)

    def remove(self, poll: Poll, hearing: Hearing) -> None:
        """Expect no more wakes."""
        self._all.discard(poll)
        self.waiting.discard(poll)
        client = poll.id[:CLIENT]
        ear = self._ears[client]
        ear.polls[poll.id].discard(poll)
        if not ear.polls[poll.id]:
            del ear.polls[poll.id]
        if not ear.polls and client != self._own:
            del self._ears[client]
            if ear.on:
                hearing.stop(ear)

    @property
    def full(self) -> bool:
        """Whether no more may wait."""
        return len(self.waiting) >= MOST

    def end(self) -> None:
        """Have all requests answered that wait."""
        for poll in list(self.waiting):
            poll.end()

    def admit(self, again: Callable[[Caller], Caller | None]) -> None:
        """Give each request the rights that it has now. Have those answered whose clients are not
        admitted any more.
        """
        for poll in list(self._all):  # also one whose first question is not answered yet
            caller = again(poll.caller)
            if caller is None:
                poll.denied = True
                poll.end()
            else:
                poll.caller = caller
                poll.wake()


def _finish(asleep: asyncio.Future[None]) -> None:
    with suppress(asyncio.InvalidStateError):  # it was cancelled, or has finished already
        asleep.set_result(None)
