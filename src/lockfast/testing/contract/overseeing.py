"""The client's contract on seeing everything, and on taking a claim away from its holder."""

from __future__ import annotations

import pytest

from lockfast.errors import LeaseLost, Loss
from lockfast.testing.contract.losing import SLACK
from lockfast.testing.contract.reading import until_queued
from lockfast.testing.stage import Contract, Stage, driven
from lockfast.testing.verbs import acquire, inspect, release, revoke, wait_lost


class OverviewContract(Contract):
    """What an operator sees and does."""

    @driven
    async def test_all_names_with_a_prefix_are_shown_in_order_with_who_holds_and_who_waits(
        self, stage: Stage
    ) -> None:
        client, other, looker = (stage.client() for _ in range(3))
        held = [
            await acquire(client.lock(name, ttl=20, purpose="why"))
            for name in ("pay:2", "pay:1", "ship:1")
        ]
        job = stage.colour.start(acquire(other.lock("pay:1", ttl=15), 20))
        await until_queued(stage, client.lock("pay:1"), 2)
        shown = await inspect(looker, "pay:")
        assert [(each.name, each.granted) for each in shown] == [
            ("pay:1", True),
            ("pay:1", False),
            ("pay:2", True),
        ]
        assert (shown[0].token, shown[1].token) == (held[1].token, None)
        assert (shown[0].life, shown[1].life) == (20, 10)  # a waiter has ten seconds at most
        assert shown[0].who.purpose == "why"
        assert 0 < shown[0].left <= 20
        assert {each.name for each in await inspect(looker)} == {"pay:1", "pay:2", "ship:1"}
        for lease in held:
            await release(lease)
        await release(await job.result())
        assert await inspect(looker) == []

    @driven
    async def test_a_claim_that_is_taken_away_goes_to_the_next_and_its_holder_is_told(
        self, stage: Stage
    ) -> None:
        client, other, operator = (stage.client() for _ in range(3))
        lease = await acquire(client.lock("x", ttl=stage.brief))
        job = stage.colour.start(acquire(other.lock("x", ttl=stage.brief), 20))
        await until_queued(stage, client.lock("x"), 2)
        holder = (await inspect(operator, "x"))[0]
        assert holder.id == lease.id
        assert await revoke(operator, holder, "it hangs")
        following = await job.result()
        assert following.token > lease.token
        assert await wait_lost(lease, SLACK)
        assert lease.loss is Loss.GONE
        assert not await revoke(operator, holder, "twice")
        following.ensure_held()  # only the claim that was named is gone
        await release(following)
        with pytest.raises(LeaseLost):
            await release(lease)
