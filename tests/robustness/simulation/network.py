"""The network: it delays, loses, doubles, and delivers very late. No order is kept.

A claim is doubled by its client alone, who sends it again and counts the copies. A middleman that
repeated claims on its own would break the finality of a resignation; TCP has none.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.robustness.simulation.plan import LATEST, Plan
from tests.robustness.simulation.world import Process, World


class Network:
    """Between every two processes."""

    def __init__(self, world: World, plan: Plan, rng: Random) -> None:
        self._world = world
        self._plan = plan
        self._rng = rng
        self.faulty = True
        self.ended = False

    def send(
        self,
        to: Process,
        what: str,
        deliver: Callable[[], object],
        *,
        once: bool = False,
        cut: Callable[[], object] | None = None,
    ) -> None:
        """Deliver a message some time, or never, or twice unless it goes `once`.

        `cut`: tells its sender that the connection broke. That may happen to a lost message; one
        that is late arrives all the same.
        """
        if self.ended:
            return
        rng, plan = self._rng, self._plan
        delay = rng.uniform(0.0005, 0.02)
        if self.faulty:
            chance = rng.random()
            if chance < plan.loss:
                if self._world.tracing:
                    self._world.say("network", f"loses {what}")
                self._cut(cut)
                return
            if chance < plan.loss + plan.late:
                delay = rng.uniform(0.05, rng.choice((1.0, 1.0, LATEST)))
                self._cut(cut)
                if self._world.tracing:
                    self._world.say("network", f"delays {what} by {delay:.3f} s")
            if not once and rng.random() < plan.double:
                to.call_later(delay + rng.uniform(0.0, 0.5), deliver)
        to.call_later(delay, deliver)

    def _cut(self, cut: Callable[[], object] | None) -> None:
        if cut is not None and self._rng.random() < 0.5:
            cut()
