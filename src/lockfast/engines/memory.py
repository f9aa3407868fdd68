"""The memory engine: the reference model (`lockfast.core.queue`) within one process.

It is for tests and tutorials. Clients of one process that connect to the same `memory://NAME` share
its queues. Processes share nothing, and a forked child has its own copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from lockfast.core.queue import Queues
from lockfast.engines.one_by_one import singly
from lockfast.errors import EngineUnavailable
from lockfast.guarantees import Guarantees, Level
from lockfast.port import (
    CLIENT,
    EVERYONE,
    RECORDS,
    REMEMBERED,
    Ask,
    Engine,
    Page,
    Standing,
    Wake,
    everyone_of,
)
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import Bell, Clock, now
from lockfast.runtime.mutex import Mutex
from lockfast.runtime.threads import Threads
from lockfast.url import Target

T = TypeVar("T")
PAGE = 100


Later = tuple[Sequence[Ask], bool]


class Memory:
    """What the clients of one `memory://NAME` share: the queues, their clock and the listeners.

    A signal handler or a finalizer may interrupt the critical section in the same thread. It cannot
    wait until the section ends. Its resignations are put on `later`, and applied at the end of the
    section. All its other operations raise `EngineUnavailable`.
    """

    def __init__(self, clock: Clock = now) -> None:
        """Start without claims."""
        self.clock = clock
        self.queues = Queues()
        self.lock = Mutex()
        self.later: list[Later] = []
        """Resignations that interrupted the critical section: the claims, and whether in doubt."""
        self.records: dict[str, list[tuple[float, bytes]]] = {}
        """Records of breaks by name, the newest first. The number says until when each is kept."""
        self.listeners: dict[str, dict[MemoryEngine, None]] = {}
        """The engines that hear each client. Changed by single operations, which are atomic."""

    def run(self, operation: Callable[[], T]) -> T:
        """Run an operation in the critical section, and return its result.

        Raises `EngineUnavailable` if the calling thread is in the critical section already.
        """
        if self.lock.inside():
            raise EngineUnavailable(
                "memory:// was called by a signal handler or a finalizer that interrupted it in "
                "the same thread: do the work in another thread",
                sent=False,
            )
        with self.lock:
            try:
                result = operation()
            finally:
                self._catch_up()
        if self.later:  # an interruption came after `_catch_up`, but inside the section
            self.run(bool)
        return result

    def kept(self, name: str) -> list[tuple[float, bytes]]:
        """Return the records of a name that have not expired, the newest first."""
        return [each for each in self.records.get(name, ()) if self.clock() < each[0]]

    def join(self, client: str, engine: MemoryEngine) -> None:
        """Deliver the pushes for a client to an engine too. No mutex: any thread may interrupt."""
        hearing: dict[MemoryEngine, None] = {}
        while self.listeners.get(client) is not hearing:  # another one may have left meanwhile
            hearing = self.listeners.setdefault(client, {})
            hearing[engine] = None

    def leave(self, client: str, engine: MemoryEngine) -> None:
        """Deliver the pushes for a client no longer to an engine."""
        hearing = self.listeners.get(client, {})
        hearing.pop(engine, None)
        if not hearing:
            self.listeners.pop(client, None)
            for each in list(hearing):  # it has joined between these two lines
                self.join(client, each)

    def _catch_up(self) -> None:
        """Apply the resignations on `later`, then deliver the pushes."""
        while self.later:
            asks, doubt = self.later.pop()
            for ask in asks:
                self.queues.resign(ask, self.clock(), doubt=doubt)
        self.deliver()

    def deliver(self) -> None:
        """Deliver the last operation's pushes, to all engines that hear the client."""
        wakes, self.queues.wakes = self.queues.wakes, []
        for wake in wakes:
            for listener in list(self.listeners.get(wake.id[:CLIENT], ())):
                listener.push(wake)


class MemoryEngine:
    """The engine of one client, on a `Memory` that several clients may share."""

    bound = True

    def __init__(self, memory: Memory, bell: Bell) -> None:
        """Start with `EVERYONE` as the first push, as the port demands."""
        self._memory = memory
        self._bell = bell
        self._pushes: list[Wake] = [EVERYONE]
        self._heard: dict[str, None] = {}

    def push(self, wake: Wake) -> None:
        """Queue a push, and wake the listener."""
        self._pushes.append(wake)
        self._bell.ring()

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:  # noqa: ARG002  # the port's
        """Append the claim, and return its standing."""
        memory = self._memory
        return memory.run(lambda: memory.queues.claim(ask, memory.clock()))

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several claims, one by one, and return their standings."""
        return await singly(self.claim, asks, deadline)

    async def renew(
        self,
        asks: Sequence[Ask],
        deadline: float,  # noqa: ARG002  # the port's
    ) -> list[Standing | Exception | None]:
        """Extend the claims, and return their standings."""
        memory = self._memory

        def renewed() -> list[Standing | Exception | None]:
            at = memory.clock()
            return [memory.queues.renew(ask, at) for ask in asks]

        return memory.run(renewed)

    async def resign(
        self,
        asks: Sequence[Ask],
        deadline: float,  # noqa: ARG002  # the port's
        *,
        doubt: bool,
    ) -> list[bool | Exception]:
        """Remove the claims for good. An interruption puts that off: see `Memory`."""
        memory = self._memory
        if memory.lock.inside():
            memory.later.append((asks, doubt))
            return [True for _ in asks]

        def resigned() -> list[bool | Exception]:
            at = memory.clock()
            return [memory.queues.resign(ask, at, doubt=doubt) for ask in asks]

        return memory.run(resigned)

    async def attach(
        self,
        asks: Sequence[Ask],
        deadline: float,  # noqa: ARG002  # the port's
    ) -> list[bool | Exception]:
        """Store which connection of the service the claims belong to."""
        memory = self._memory
        return memory.run(lambda: [memory.queues.attach(ask, memory.clock()) for ask in asks])

    async def depart(
        self,
        asks: Sequence[Ask],
        deadline: float,  # noqa: ARG002  # the port's
    ) -> list[bool | Exception]:
        """Remove the claims that still belong to their connection."""
        memory = self._memory
        return memory.run(lambda: [memory.queues.depart(ask, memory.clock()) for ask in asks])

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop receiving the pushes for a client."""
        if on:
            self._heard[client] = None
            self._memory.join(client, self)
            self.push(everyone_of(client))
        elif client in self._heard:
            self._heard.pop(client, None)
            self._memory.leave(client, self)

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Do nothing: the heart resigns the claims afterwards."""

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait until a push, a `rouse` or the deadline, and return the pushes."""
        if not self._pushes:
            await self._bell.wait(deadline)
        pushes, self._pushes = self._pushes, []
        return pushes

    def rouse(self) -> None:
        """Make `listen` return now."""
        self._bell.ring()

    def time(self, name: str) -> float:  # noqa: ARG002  # one clock for all names
        """Return the time of the memory's clock."""
        return self._memory.clock()

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Return the claims on one name, or on up to a hundred names with a prefix."""
        return self._memory.run(lambda: self._page(names, cursor, exact=exact))

    def _page(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        queues, at = self._memory.queues, self._memory.clock()
        if exact:
            return Page(queues.entries(names, at), None)
        every = [n for n in queues.names() if n.startswith(names)]
        rest = [n for n in every if cursor is None or n > cursor]
        shown = rest[:PAGE]
        entries = [entry for name in shown for entry in queues.entries(name, at)]
        return Page(entries, shown[-1] if len(rest) > PAGE else None)

    async def record(
        self,
        name: str,
        claim: str,  # noqa: ARG002  # the port's
        record: bytes,
        deadline: float,  # noqa: ARG002  # the port's
    ) -> None:
        """Keep the record of a break, and drop the expired records of all names."""
        memory = self._memory

        def recorded() -> None:
            kept = {each: alive for each in memory.records if (alive := memory.kept(each))}
            first = (memory.clock() + REMEMBERED, record)
            memory.records = {**kept, name: [first, *kept.get(name, ())][:RECORDS]}

        memory.run(recorded)

    async def records(self, name: str, deadline: float) -> list[bytes]:  # noqa: ARG002  # the port's
        """Return the records of a name, the newest first."""
        return self._memory.run(lambda: [record for _, record in self._memory.kept(name)])

    async def guarantees(self, deadline: float) -> Guarantees:  # noqa: ARG002  # the port's
        """Return the lowest level, because this engine is for tests and tutorials."""
        return Guarantees(
            "memory, in this process",
            Level.EFFICIENCY,
            "locks exist in this process only, and end with it, and so do the tokens",
            best=Level.EFFICIENCY,
        )

    def stand_in(self) -> MemoryEngine:
        """Return a blocking engine on the same memory."""
        return MemoryEngine(self._memory, Threads(self._memory.clock).bell())

    def reset(self) -> None:
        """Replace the mutex after a fork: a thread that the child does not have may hold it."""
        self._memory.lock = Mutex()
        self._bell.close()

    async def close(self) -> None:
        """Stop listening."""
        for client in list(self._heard):
            self.hear(client, on=False)
        self._bell.close()


_memories: dict[str, Memory] = {}


def opener(target: Target, runtime: Threads | Aio) -> Callable[[], Engine]:
    """Return a function that makes engines on the memory of that name, or else on a new one."""
    target.take()
    name = target.hosts[0][0] if target.hosts else ""
    memory = _memories.setdefault(name, Memory()) if name else Memory()
    return lambda: MemoryEngine(memory, runtime.bell())
