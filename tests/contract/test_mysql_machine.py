"""MariaDB and the reference model, with batches that go together: three requests and more."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from lockfast.engines.mysql import install, messages
from lockfast.port import Ask, Standing
from lockfast.testing import MachineContract, QueueMachine
from lockfast.testing.harness.state_machine import SIZES, TTLS, Sizes
from lockfast.testing.harness.twins import NAMES, NEAR, Claim
from tests.contract.benches import MysqlBench
from tests.servers import MariaDB, ServerClock

SHARED_BUCKETS = 3  # names that share the bucket of another one
EXAMPLES = int(os.environ.get("LOCKFAST_EXAMPLES", "3"))


def more() -> list[str]:
    """Return more names, some of which share a bucket."""
    names = [*NAMES, *(f"name {number}" for number in range(10))]
    for place in range(SHARED_BUCKETS):
        bucket = messages.bucket(names[place])
        every = (f"other {number}" for number in itertools.count())
        names.append(next(each for each in every if messages.bucket(each) == bucket))
    return names


MORE = more()
Wish = tuple[str, Sizes, int, bool]
WISHES = st.tuples(
    st.sampled_from(MORE),
    st.sampled_from(SIZES),
    st.sampled_from(TTLS),
    st.sampled_from([True, True, False]),
)


class BatchMachine(QueueMachine):
    """The same operations, most of them in batches. A batch may have old claims among the new."""

    names = MORE

    @rule(
        wishes=st.lists(WISHES, min_size=3, max_size=len(MORE), unique_by=lambda wish: wish[0]),
        data=st.data(),
    )
    def claim_many(self, wishes: list[Wish], data: st.DataObject) -> None:
        """Claim several names in one call, and send some claims again."""
        self.tick()
        again = data.draw(st.lists(st.sampled_from(self.claims), max_size=3)) if self.claims else []
        old = {claim.ask.shape.name: claim for claim in again}
        new = []
        for name, (kind, capacity, weight), ttl, queue in wishes:
            if name not in old:
                ask = self.actor.ask(
                    name, ttl=ttl, kind=kind, capacity=capacity, weight=weight, queue=queue
                )
                new.append(Claim(ask, self.time + self.rewound + ask.shape.wait_ttl))
        self.claims += new
        self.send_all([*old.values(), *new])

    @precondition(lambda self: len(self.claims) > 3)
    @rule(data=st.data())
    def renew_many(self, data: st.DataObject) -> None:
        """Renew many claims in one call."""
        now = self.tick()
        asks = [claim.ask for claim in self.chosen(data)]
        theirs = self.ask(self.actor.renew(*asks))
        ours = [self.model.renew(ask, now) for ask in asks]
        for ask, found, wanted in zip(asks, theirs, ours, strict=True):
            same = (found is None) == (wanted is None)
            assert self.spoiled or same, (ask.shape, found, wanted)
        self.compare_pushes(*asks)

    @precondition(lambda self: len(self.claims) > 3)
    @rule(data=st.data(), doubt=st.sampled_from([False, False, True]))
    def resign_many(self, data: st.DataObject, doubt: bool) -> None:  # noqa: FBT001  # drawn
        """Resign many claims in one call."""
        chosen = self.chosen(data)
        now = self.tick()
        asks = [claim.ask for claim in chosen]
        theirs = self.ask(self.actor.resign(*asks, doubt=doubt))
        ours = [self.model.resign(self.known(claim), now, doubt=doubt) for claim in chosen]
        assert self.spoiled or theirs == ours, (theirs, ours)
        self.compare_pushes(*asks)

    def chosen(self, data: st.DataObject) -> list[Claim]:
        """Return some of the latest claims, without an order."""
        latest = st.sampled_from(self.claims[-30:])
        found: list[Claim] = data.draw(st.lists(latest, min_size=3, max_size=20, unique=True))
        return found

    @rule(name=st.sampled_from(MORE))
    def inspect_more(self, name: str) -> None:
        """Compare what `inspect` shows of a name."""
        self.inspect(name)

    def look(self) -> None:
        """Make both look at every name, in one moment: one by one, more time would pass."""
        now = self.tick()
        claims, free = [], []
        for name in self.names:
            entries = self.model.entries(name, now)
            kind, capacity = (entries[0].kind, entries[0].capacity) if entries else (None, 1)
            ask = self.actor.ask(
                name, ttl=2, kind=kind, capacity=capacity, weight=capacity, queue=False
            )
            claims.append(Claim(ask, now + self.rewound + ask.shape.wait_ttl))
            free += [] if entries else [ask]
        self.send_all(claims)
        theirs = self.ask(self.actor.resign(*free)) if free else []
        ours = [self.model.resign(ask, now, doubt=False) for ask in free]
        assert self.spoiled or theirs == ours

    def compare(self, ask: Ask, theirs: Standing | None, ours: Standing | None) -> None:
        """Compare two standings. A claim of another name in the bucket may expire earlier."""
        if theirs is not None and theirs.recheck is not None and ours is not None:
            assert ours.recheck is not None
            if theirs.recheck < ours.recheck + NEAR:
                theirs = theirs._replace(recheck=ours.recheck)
        super().compare(ask, theirs, ours)


@pytest.fixture(scope="module")
def bench() -> Iterator[MysqlBench]:
    clock = ServerClock()
    with MariaDB(env=clock.env, config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        install(server.url)
        yield MysqlBench(server, clock=clock)


class TestBatches(MachineContract):
    machine = BatchMachine
    examples = EXAMPLES
