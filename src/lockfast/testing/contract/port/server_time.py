"""The port's contract on `time`, and on `Ask.fixed`, which clients of the service fix by it."""

from __future__ import annotations

from lockfast.port import TOMB_MARGIN
from lockfast.testing.harness.roaming import again
from lockfast.testing.harness.stage import Contract, Stage, driven

APART = 1.0  # seconds by which two measures of the same time may differ on a loaded machine


class TimeContract(Contract):
    """A replica of the service returns `time` to its clients, which fix the end of their claims by
    it. From the fixed time the replica sets `not_after`, as these tests do.
    """

    @driven
    async def test_the_time_is_known_from_the_first_reply_on(self, stage: Stage) -> None:
        actor = stage.actor()
        told = actor.engine.time("x")  # never raises, even before the engine has connected
        assert told is None or told > 0.0
        await actor.claim(actor.ask())
        first = actor.time()
        await stage.mode.sleep(0.1)
        assert 0.05 < actor.time() - first < 5.0

    @driven
    async def test_a_claim_that_comes_after_its_fixed_time_is_dead(self, stage: Stage) -> None:
        actor = stage.actor()
        late, one_of_many, other = actor.ask(), actor.ask("many"), actor.ask("other")
        for ask in (late, one_of_many, other):
            await actor.learn(ask.shape.name)
            actor.fix(ask, actor.time() - stage.bench.unit)
        assert await actor.is_dead(late)
        assert await actor.engine.claim_all([one_of_many, other], actor.deadline) == [None, None]
        assert await actor.entries("x") == []

    @driven
    async def test_a_claim_that_comes_before_its_fixed_time_is_made(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.learn()
        ask = actor.ask()
        actor.fix(ask, actor.time() + ask.shape.wait_ttl)
        assert (await actor.claim(ask)).granted

    @driven
    async def test_a_tombstone_outlives_the_fixed_time_of_the_claim(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.learn()
        ask = actor.ask(ttl=5)
        actor.fix(ask, actor.time() + 2 * stage.bench.unit)
        copy = again(ask, None, 1)
        assert await actor.resign(ask, doubt=True) == [False]
        await stage.advance(2 + stage.units(TOMB_MARGIN / 2))
        actor.fix(copy, actor.time() + copy.shape.wait_ttl)  # only the tombstone refuses it
        assert await actor.is_dead(copy)
        assert await actor.entries("x") == []


class FixedTimeContract(Contract):
    """For engines whose server compares `Ask.fixed` with its own clock: the engine does not use
    `not_after` then.
    """

    @driven
    async def test_the_time_is_that_of_the_servers_clock(self, stage: Stage) -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=10)
        await actor.claim(ask)
        before, first = stage.bench.now(), actor.time()
        await stage.advance(3)
        await actor.renew_one(ask)  # its reply tells the time again
        passed = stage.bench.now() - before
        assert abs(actor.time() - first - passed) < APART

    @driven
    async def test_the_fixed_time_alone_decides_that_a_claim_is_dead(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.learn()
        late, one_of_many, other = actor.ask(), actor.ask("many"), actor.ask("other")
        for ask in (late, one_of_many):
            ask.fixed = actor.time() - stage.bench.unit
        assert await actor.is_dead(late)
        dead, alive = await actor.engine.claim_all([one_of_many, other], actor.deadline)
        assert (dead, alive is None) == (None, False)
        assert await actor.entries("x") == []

    @driven
    async def test_the_fixed_time_alone_decides_that_a_claim_is_made(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.learn()
        ask = actor.ask(late=1)
        ask.fixed = actor.time() + ask.shape.wait_ttl
        assert (await actor.claim(ask)).granted

    @driven
    async def test_a_copy_that_lay_in_the_buffer_of_another_replica_is_dead(
        self, stage: Stage
    ) -> None:
        old, new = stage.actor(), stage.actor()
        for actor in (old, new):
            await actor.learn()
        ask = old.ask(ttl=8)
        ask.fixed = old.time() + 2 * stage.bench.unit
        copy = again(ask, None, 2)
        await stage.advance(3)
        assert await new.is_dead(copy)
        assert await new.entries("x") == []

    @driven
    async def test_a_fixed_time_out_of_all_bounds_harms_no_other_claim(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.learn()
        early, late, other = actor.ask("early"), actor.ask("late"), actor.ask("other")
        early.fixed, late.fixed = -1e11, 1e11
        dead, made, alive = await actor.engine.claim_all([early, late, other], actor.deadline)
        assert [dead is None, made is None, alive is None] == [True, False, False]
        assert await actor.resign(early, late, other, doubt=True) == [False, True, True]
        assert await actor.is_dead(late)

    @driven
    async def test_a_tombstone_outlives_a_fixed_time_that_is_far_ahead(self, stage: Stage) -> None:
        actor = stage.actor()
        await actor.learn()
        ask = actor.ask(ttl=5)
        ask.fixed = actor.time() + 12 * stage.bench.unit  # not_after is in 5
        copy = again(ask, None, 1)
        assert await actor.resign(ask, doubt=True) == [False]
        await stage.advance(12 + stage.units(TOMB_MARGIN / 2))
        copy.fixed = actor.time() + copy.shape.wait_ttl  # only the tombstone refuses it
        assert await actor.is_dead(copy)
        assert await actor.entries("x") == []
