"""The client's contract on a read/write lock with many readers and a few writers."""

from __future__ import annotations

import random

from lockfast.testing.contract.client.times import LONG
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import AnyClient, AnyLease, queue, within

WRITERS = 5
WRITES = 4
CLIENTS = 10


class Visit:
    """One time that a worker held the lock. `began` and `ended` are places in `Library.events`."""

    def __init__(self, ticket: int, began: int, *, writes: bool) -> None:
        """Start a visit that has not ended."""
        self.ticket = ticket
        self.writes = writes
        self.began = began
        self.ended = 0


class Library:
    """Records when readers and writers enter and leave. It protects nothing itself."""

    def __init__(self, stage: Stage) -> None:
        """Start empty."""
        self._stage = stage
        self.events: list[Visit] = []
        self.visits: list[Visit] = []

    async def visit(self, client: AnyClient, pause: float, *, writes: bool) -> None:
        """Sleep for `pause` seconds, then hold the lock for a moment, as a reader or a writer."""
        await self._stage.mode.sleep(pause)
        lock = client.rwlock("x", ttl=LONG, timeout=60.0)

        async def body(lease: AnyLease) -> None:
            visit = Visit(lease.ticket, len(self.events), writes=writes)
            self.events.append(visit)
            self.visits.append(visit)
            await self._stage.mode.sleep(0.002)
            visit.ended = len(self.events)
            self.events.append(visit)

        await within(lock.write() if writes else lock.read(), body)


CROWD = 40.0  # seconds for all visits; most of that is computing, not waiting


class ManyReadersContract(Contract):
    """500 reads and 20 writes through 10 clients."""

    readers = 500
    """How many reads. An engine whose claim reads the queue needs time for the square of it."""

    @driven
    async def test_no_writer_meets_anybody_or_waits_for_a_reader_that_came_after_it(
        self, stage: Stage
    ) -> None:
        chance = random.Random(5)  # noqa: S311  # the same each time
        clients = [stage.client() for _ in range(CLIENTS)]
        library = Library(stage)
        writes = [True] * WRITERS * WRITES + [False] * self.readers
        chance.shuffle(writes)
        await stage.mode.together(
            *(
                library.visit(clients[number % CLIENTS], chance.uniform(0.0, 0.3), writes=each)
                for number, each in enumerate(writes)
            ),
            timeout=CROWD,
        )
        visits = library.visits
        assert len(visits) == len(writes)
        for writer in (visit for visit in visits if visit.writes):
            for other in visits:
                if other is not writer:
                    apart = other.ended < writer.began or writer.ended < other.began
                    assert apart, "somebody was inside with a writer"
                    assert (other.ticket < writer.ticket) == (other.began < writer.began)
        assert await queue(clients[0].rwlock("x").read()) == []
