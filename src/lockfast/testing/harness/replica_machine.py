"""Random operations on two engines with the same claims, compared with the reference model.

Between two operations the client may move to the other engine, as a client of the service moves to
another replica. What it sent on an earlier connection may come to the server after that.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from lockfast.port import Wake
from lockfast.testing.harness.roaming import Roaming
from lockfast.testing.harness.stage import Actor, Stage
from lockfast.testing.harness.state_machine import MachineContract, QueueMachine
from lockfast.testing.harness.twins import NAMES


class ReplicaMachine(QueueMachine):
    """The operations of a client that has two replicas."""

    way: Roaming

    def __init__(self, stage: Stage) -> None:
        """Start with a client at the first replica."""
        self.hints: Counter[str] = Counter()
        super().__init__(stage)

    async def _open(self) -> Actor:
        self.way = Roaming(*(self.stage.actor().engine for _ in range(2)))
        actor = Actor(self.way, self.stage.bench)
        await actor.attend()
        return actor

    @rule()
    def move(self) -> None:
        """Move to the other replica, with the same ids. Wakes may have been missed meanwhile, so
        ask about every waiter.
        """
        self.compare_pushes()
        self.run(self._move())
        now = self.tick()
        entries = [entry for name in NAMES for entry in self.model.entries(name, now)]
        waiting = {entry.id for entry in entries if not entry.granted}
        if waiting:
            self.renew_all([claim for claim in self.claims if claim.ask.id in waiting])

    async def _move(self) -> None:
        self.way.hear(self.actor.client, on=False)
        self._take(await self.way.listen(self.stage.bench.now()))
        self.way.move()
        await self.actor.attend_to(self.actor.client)

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), what=st.sampled_from(["claim", "renewal", "resignation"]))
    def late(self, data: st.DataObject, what: str) -> None:
        """Let a request of an earlier connection come to the server by the other replica."""
        with self.way.late():
            if what == "claim":
                self.retry(data)
            elif what == "renewal":
                self.renew(data)
            else:
                self.resign(data, data.draw(st.booleans()))

    def surplus(self) -> Counter[str]:
        """Return the pushes without a reason. After a move, a push may come a second time."""
        known = self.expected.keys() | self.optional.keys()
        return Counter({id_: n for id_, n in super().surplus().items() if id_ not in known})

    def missing(self) -> Counter[str]:
        """Return the pushes that have not come yet. A hint to ask is as good as a push, because the
        replica may be unable to verify a message about a claim that was made at the other one.
        """
        return super().missing() - self.hints

    def _take(self, wakes: list[Wake]) -> None:
        super()._take(wakes)
        self.hints.update(wake.id for wake in wakes if not wake.granted)

    def learn(self) -> None:
        """Let both engines learn the time."""
        super().learn()
        with self.way.late():
            super().learn()


class ReplicaMachineContract(MachineContract):
    """Compares two engines with the reference model, while a client moves between them."""

    machine = ReplicaMachine
    examples = MachineContract.examples // 2
