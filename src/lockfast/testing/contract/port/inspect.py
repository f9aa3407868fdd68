"""The port's contract on `inspect`: who holds and who waits, without changing anything."""

from __future__ import annotations

from lockfast.testing.harness.stage import Contract, Stage, driven

MANY = 350
WILD = ["a*", "a?", "a[b]", "a[^b]", "a\\", "a-z", "a^", "a.", "a$", "a%", "a{b}", "a}=b"]


class InspectContract(Contract):
    """`inspect` shows claims, and changes nothing."""

    @driven
    async def test_a_lone_holder_is_shown(self, stage: Stage) -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=5, payload=b"alone")
        ticket = (await actor.claim(ask)).ticket
        (entry,) = await actor.entries("x")
        assert entry[:6] == ("x", ask.id, ticket, True, 1, 1)
        assert entry.payload == b"alone"
        assert 4 < stage.units(entry.left) <= 5

    @driven
    async def test_a_free_name_shows_nothing(self, stage: Stage) -> None:
        actor = stage.actor()
        assert await actor.entries("x") == []
        assert await actor.every("") == []

    @driven
    async def test_looking_neither_extends_nor_prunes(self, stage: Stage) -> None:
        actor = stage.actor()
        holder, waiter = actor.ask(ttl=3), actor.ask(ttl=8)
        await actor.claim(holder)
        await actor.claim(waiter)
        await stage.advance(2)
        for _ in range(3):
            entries = await actor.entries("x")
            assert [
                stage.units(entry.left) < limit
                for entry, limit in zip(entries, (1.1, 6.1), strict=True)
            ] == [True, True]
        await stage.advance(1.5)
        assert [entry.id for entry in await actor.entries("x")] == [waiter.id]
        assert [entry.id for entry in await actor.every("")] == [waiter.id]
        assert (await actor.renew_one(waiter)).granted

    @driven
    async def test_hundreds_of_names_are_shown_in_pages_each_claim_once(self, stage: Stage) -> None:
        actor = stage.actor()
        asks = [actor.ask(f"job {number}", ttl=60) for number in range(MANY)]
        asks += [actor.ask("job 7", ttl=60), actor.ask("other", ttl=60)]
        for ask in asks:
            await actor.claim(ask)
        shown = [(entry.name, entry.id) for entry in await actor.every("job ")]
        expected = [(ask.shape.name, ask.id) for ask in asks if ask.shape.name != "other"]
        assert sorted(shown) == sorted(expected)
        assert len(await actor.every("")) == len(asks)

    @driven
    async def test_a_prefix_is_literal_whatever_it_is(self, stage: Stage) -> None:
        actor = stage.actor()
        names = WILD + [name + "tail" for name in WILD] + ["a", "ab", "b", "azz", "x}=a*"]
        for name in names:
            await actor.claim(actor.ask(name, ttl=60))
        for prefix in [*WILD, "a", "b", "", "x", "tail", "{", "="]:
            shown = sorted(entry.name for entry in await actor.every(prefix))
            assert shown == sorted(name for name in names if name.startswith(prefix)), prefix

    @driven
    async def test_one_name_is_not_a_prefix(self, stage: Stage) -> None:
        actor = stage.actor()
        for name in ("job", "job 1", "jo", "job*"):
            await actor.claim(actor.ask(name))
        for name in ("job", "job*"):
            assert [entry.name for entry in await actor.entries(name)] == [name]
