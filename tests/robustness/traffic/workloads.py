"""The workloads: each is one thing done over and over, the same in both modes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from lockfast.port import SHARED, Kind, Shape
from tests.robustness.traffic.bench import AnyHold, Bench, leases_of


class Workload(ABC):
    """One hand's work."""

    names: ClassVar[int]
    """How many names there are: few make waiters, many make numbers."""
    rest: ClassVar[float] = 0.01
    """Seconds between two operations, about. Two cores serve everybody, hearts too."""
    hold: ClassVar[float] = 0.004
    """Seconds for which it is held, about."""
    long: ClassVar[float] = 0.01
    """The share of those that hold for longer than a ttl."""

    def __init__(self, kind: str, bench: Bench) -> None:
        self.kind = kind
        self.bench = bench
        self.count = 0

    async def once(self) -> None:
        """Take, work, give back, rest."""
        bench = self.bench
        held = await self.take()
        if held is not None:
            try:
                await self.work(held)
            finally:
                await bench.given_back(held)
        await bench.mode.sleep(bench.dice.uniform(0.0, 2 * self.rest))

    def name(self) -> str:
        return f"{self.kind}:{self.bench.dice.randrange(self.names)}"

    @abstractmethod
    async def take(self) -> AnyHold | None:
        """Ask."""

    async def work(self, held: AnyHold) -> None:
        """Hold it for a while."""
        del held
        await self.bench.mode.sleep(self.bench.work(self.hold, self.long))

    async def write(self, held: AnyHold) -> None:
        """Write a few times to the register, and never ask whether it is still held."""
        bench = self.bench
        (lease,) = leases_of(held)
        pen = await bench.register.opened(lease)
        if pen is None:
            return
        for place in range(bench.dice.randint(1, 3)):
            await bench.mode.sleep(bench.work(self.hold, self.long))
            if not await pen.write(f"{bench.recorder.client}:{lease.id}:{place}"):
                return


class Lock(Workload):
    """Many names: numbers."""

    names = 60
    rest = 0.003
    hold = 0.001
    long = 0.002

    async def take(self) -> AnyHold | None:
        name, ttl = self.name(), self.bench.ttl
        return await self.bench.taken(self.bench.client.lock(name, ttl=ttl), [Shape(name, ttl)])


class Queue(Lock):
    """Few names, so that there is always a queue: grants come in its order."""

    names = 2
    rest = 0.01
    hold = 0.004
    long = 0.01


class Held(Lock):
    """Held for several ttls on end, so that a fault meets holders and waiters of every client."""

    names = 3

    async def work(self, held: AnyHold) -> None:
        del held
        await self.bench.mode.sleep(self.bench.dice.uniform(1.4, 2.0) * self.bench.ttl)


class Register(Lock):
    """A fenced register, and its twin."""

    names = 3
    rest = 0.01
    hold = 0.008
    long = 0.02

    async def work(self, held: AnyHold) -> None:
        await self.write(held)


class ReadWrite(Workload):
    """Readers together, a writer alone."""

    names = 2

    async def take(self) -> AnyHold | None:
        bench, name = self.bench, self.name()
        lock = bench.client.rwlock(name, ttl=bench.ttl)
        reads = bench.dice.random() < 0.75
        weight = 1 if reads else SHARED
        shape = Shape(name, bench.ttl, Kind.READ_WRITE, SHARED, weight)
        return await bench.taken(lock.read() if reads else lock.write(), [shape])


class Semaphore(Workload):
    """Permits, taken singly and in pairs, of a semaphore that grows and shrinks in use."""

    names = 2
    capacities: ClassVar[tuple[int, ...]] = (5, 8, 3)

    async def take(self) -> AnyHold | None:
        bench, name = self.bench, self.name()
        permits = bench.dice.randint(1, 2)
        capacity = bench.dice.choice(self.capacities)
        lock = bench.client.semaphore(name, capacity, permits=permits, ttl=bench.ttl)
        shape = Shape(name, bench.ttl, Kind.SEMAPHORE, capacity, permits)
        return await bench.taken(lock, [shape])


class Together(Workload):
    """Two or three of six names at once, all or nothing."""

    names = 6
    rest = 0.02

    async def take(self) -> AnyHold | None:
        bench = self.bench
        count = bench.dice.randint(2, 3)
        names = [f"{self.kind}:{i}" for i in bench.dice.sample(range(self.names), count)]
        lock = bench.client.lock_all(*names, ttl=bench.ttl)
        return await bench.taken(lock, [Shape(name, bench.ttl) for name in names])


class Election(Workload):
    """One leader at a time, who writes with its term."""

    names = 1
    rest = 0.02
    hold = 0.02

    async def take(self) -> AnyHold | None:
        bench, name = self.bench, self.name()
        election = bench.client.election(name, ttl=bench.ttl)
        return await bench.taken(election, [Shape(name, bench.ttl)])

    async def work(self, held: AnyHold) -> None:
        await self.write(held)


WORKLOADS: dict[str, type[Workload]] = {
    "lock": Lock,
    "queue": Queue,
    "held": Held,
    "register": Register,
    "rwlock": ReadWrite,
    "semaphore": Semaphore,
    "lock_all": Together,
    "election": Election,
}
