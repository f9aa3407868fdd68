"""The client's contract on `at_most`: a holder that hangs loses its lock, and learns why."""

from __future__ import annotations

import pytest

from lockfast.core.validity import State
from lockfast.errors import LeaseLost, Loss
from lockfast.runtime.base import now
from lockfast.testing.contract.client.times import LONG, SLACK
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import (
    AnyLease,
    acquire,
    release,
    stand,
    try_acquire,
    wait_lost,
)


class AtMostContract(Contract):
    """`at_most`: seconds after the grant from which a lease is not renewed."""

    @driven
    async def test_a_holder_that_hangs_loses_its_locks_a_ttl_after_at_most(
        self, stage: Stage
    ) -> None:
        client, other = stage.client(), stage.client()
        ttl = 2.0 * stage.brief
        at_most = 1.5 * ttl
        began = now()
        first = await acquire(client.lock("x", ttl=ttl, at_most=at_most), SLACK)
        leases = [
            first,
            await acquire(client.rlock("y", ttl=ttl, at_most=at_most), SLACK),
            await acquire(client.lock_all("z", "w", ttl=ttl, at_most=at_most), SLACK),
        ]
        granted = now()
        assert await wait_lost(first, max(began + 1.3 * ttl - now(), 0.0)) is False
        assert await try_acquire(other.lock("x", ttl=LONG)) is None  # it was renewed
        for lease in leases:
            assert await wait_lost(lease, at_most + ttl + SLACK)
            assert now() >= began + at_most
            assert (lease.state, lease.loss) == (State.LOST, Loss.AT_MOST)
            with pytest.raises(LeaseLost, match="at_most") as caught:
                await release(lease)
            assert caught.value.reason is Loss.AT_MOST
        assert first.valid_until <= granted + at_most + ttl
        for name in ("x", "y", "z", "w"):
            await release(await acquire(other.lock(name, ttl=LONG), SLACK))

    @driven
    async def test_it_ends_the_term_of_a_leader_which_campaigns_again(self, stage: Stage) -> None:
        ttl = 2.0 * stage.brief
        terms: list[int] = []
        events: list[str] = []

        def gained(lease: AnyLease) -> None:
            events.append("leads")
            terms.append(lease.token)

        election = stage.client().election("x", ttl=ttl, at_most=ttl / 2.0)

        async def until_led_twice() -> None:
            await stage.mode.until(lambda: len(terms) > 1, "a second term")

        await stand(election.run(gained, lambda: events.append("ends")), until_led_twice)
        assert events[:3] == ["leads", "ends", "leads"]
        assert terms[1] > terms[0]
