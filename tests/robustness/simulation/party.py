"""The clients: each a process with a real lockfast client, and workers who contend by it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random

from lockfast.aio import AsyncClient
from lockfast.claims.claim import Claim
from lockfast.claims.session import Session
from lockfast.errors import LockfastError
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from tests.robustness.simulation.deeds import Deeds
from tests.robustness.simulation.network import Network
from tests.robustness.simulation.plan import FAULTY, Plan
from tests.robustness.simulation.register import Place
from tests.robustness.simulation.world import FOREVER, Process, World

LOOK = 0.5  # seconds after which a waiter that holds something looks for a circle


class Party:
    """One client process."""

    def __init__(  # noqa: PLR0913, PLR0917  # the whole of its world
        self,
        number: int,
        opener: Callable[[Process, str], Callable[[], Engine]],
        seen: Counter[str],
        place: Place,
        network: Network,
        plan: Plan,
        world: World,
        rng: Random,
    ) -> None:
        self.process = Process.new(
            world, f"client {number}", start=1000.0 * number, rate=1.0 + plan.drifts[number]
        )
        self._world = world
        self._seen = seen
        self._plan = plan
        self._rng = rng
        prefix = f"{number + 1:022x}"
        open_engine = opener(self.process, prefix)
        self.session = Session(open_engine, Aio(self.process.time), deadlock_after=LOOK)
        numbers = count()
        self.prefix = prefix
        # The same in every replay.
        self.session.new_id = lambda: f"{prefix}{next(numbers):010x}"  # type: ignore[method-assign]
        self.client = AsyncClient(self.session)
        self._deeds = Deeds(self.client, self.process, place, network, plan, rng)
        self.done: Callable[[], None]
        self.working = plan.workers
        self.crashed = False
        self.believed: dict[str, float] = {}
        """Until when it believed in each claim, when the witness last looked."""

    def crash(self) -> None:
        """Never go on."""
        self.crashed = True
        self.process.frozen = FOREVER
        self.working = 0
        self.done()

    def claims(self) -> list[Claim]:
        """List its claims; a process that crashed has none."""
        return [] if self.crashed else list(self.session.table._by_id.values())

    def begin(self) -> None:
        for _ in range(self._plan.workers):
            self.process.create_task(self._work())

    async def _work(self) -> None:
        rng = self._rng
        while self._world.now < FAULTY:
            await asyncio.sleep(rng.expovariate(3.0))
            task = self.process.create_task(self._deeds.once())
            if rng.random() < 0.15:
                self.process.call_later(rng.uniform(0.0, 2.0), task.cancel)
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()) is not None:
                self._seen[type(error).__name__] += 1
                if self._world.tracing:
                    said = str(error).partition(": held by")[0]  # what follows names this process
                    self._world.say(self.process.name, f"is told {type(error).__name__}: {said}")
                if not isinstance(error, LockfastError):
                    raise error
        self.working -= 1
        self.done()
