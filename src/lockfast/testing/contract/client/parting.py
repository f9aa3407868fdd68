"""The client's contract on how it parts from its engine, when that does not go well."""

from __future__ import annotations

import logging

import pytest

from lockfast.core.validity import State
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.testing.contract.client.times import LONG, SLACK, TTL
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import acquire, close, queue, release, wait_lost


class PartingContract(Contract):
    """Closing releases what it can, and tells of the rest."""

    @driven
    async def test_close_releases_though_its_first_attempts_fail(self, stage: Stage) -> None:
        client, way = stage.shaky_client()
        lease = await acquire(client.lock("x", ttl=LONG))
        failures = [
            EngineUnavailable("the connection died while it was idle", sent=False),
            EngineUnavailable("and the next one when it was written to", sent=True),
        ]

        async def fail() -> None:
            if failures:
                raise failures.pop(0)

        way.before_resign = fail
        await close(client)
        assert lease.state is State.RELEASED
        assert await queue(stage.client().lock("x")) == []
        assert failures == []

    @driven
    async def test_close_tells_what_it_could_not_release(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        client, way = stage.shaky_client()
        await release(await acquire(client.lock("warm", ttl=LONG)))
        kept = await acquire(client.lock("invoice:42", ttl=LONG))
        way.refusal = EngineRefused("not allowed, says the test")
        with caplog.at_level(logging.WARNING, "lockfast"):
            await close(client)
        assert f"'invoice:42' (token {kept.token}) may stay taken" in caplog.text
        assert "not allowed" in caplog.text

    @driven
    async def test_close_counts_a_renewal_that_was_not_answered(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        # The engine has applied the renewal, so it keeps the lock for longer than the client's
        # own clock says. The message said "for up to 0 s".
        client, way = stage.shaky_client()
        lease = await acquire(client.lock("invoice:42", ttl=TTL))
        way.mute = True
        assert await wait_lost(lease, TTL + SLACK)
        way.refusal = EngineRefused("not allowed, says the test")
        with caplog.at_level(logging.WARNING, "lockfast"):
            await close(client)
        assert f"may stay taken for up to {TTL:g} s" in caplog.text
