"""What the workers of a control do: the traffic's workloads, slower or hastier than they are."""

from __future__ import annotations

from typing import ClassVar

from tests.robustness.traffic.bench import AnyHold, Bench
from tests.robustness.traffic.workloads import WORKLOADS, Lock, Register


class Long(Lock):
    """Held for longer than a ttl, so that a fault meets a holder."""

    names = 1
    rest = 0.01
    long = 1.0


class Ages(Lock):
    """Held for several ttls, by somebody whom the others wait for."""

    names = 1
    rest = 0.01

    async def work(self, held: AnyHold) -> None:
        del held
        await self.bench.mode.sleep(4.0 * self.bench.ttl)


class Steady(Lock):
    """Held for a while, and passed on all the time."""

    names = 2
    rest = 0.01
    hold = 0.3


class Slow(Register):
    """Written to slowly, so that a fault meets a writer."""

    names = 2
    rest = 0.01
    hold = 0.4


class Single(Slow):
    """The same for one name."""

    names = 1


class HastyBench(Bench):
    """Who waits hardly at all."""

    def patience(self) -> float:
        return 0.05


class Hasty(Lock):
    """Claims that are given up while they are on their way."""

    names: ClassVar[int] = 4

    def __init__(self, kind: str, bench: Bench) -> None:
        super().__init__(kind, HastyBench(**vars(bench)))


def register() -> None:
    """Let workers find them by name."""
    WORKLOADS.update(ages=Ages, long=Long, steady=Steady, slow=Slow, single=Single, hasty=Hasty)
