"""The client's contract on guarantees: what the live server gives, and what `require` demands."""

from __future__ import annotations

import time

import pytest

from lockfast.errors import GuaranteeMissing
from lockfast.guarantees import Level
from lockfast.testing.contract.client.shared_locks import until_queued
from lockfast.testing.harness.stage import Contract, Stage, driven
from lockfast.testing.harness.verbs import acquire, guarantees, release


class GuaranteeContract(Contract):
    """The client reads the guarantees from the server itself."""

    @driven
    async def test_an_engine_says_in_one_sentence_what_it_promises(self, stage: Stage) -> None:
        found = await guarantees(stage.client())
        assert isinstance(found.level, Level)
        gives = f" gives {found.level.name.lower()}: "
        assert found.sentence.partition(gives)[0].removesuffix(",") == found.engine
        assert found.sentence.count(". ") == 0
        assert all(each.setting and each.risk and each.remedy for each in found.findings)

    @driven
    async def test_to_ask_does_not_disturb_the_heart_that_listens(self, stage: Stage) -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=30.0))
        waiting = stage.mode.start(acquire(other.lock("x", ttl=30.0), 20))
        await until_queued(stage, client.lock("x"), 2)
        for _ in range(5):
            await guarantees(other)
        began = time.monotonic()
        await release(lease)
        await release(await waiting.result())
        assert (
            time.monotonic() - began < 2.5
        )  # without a push, a waiter would look again after 3.3 s at the earliest

    @driven
    async def test_what_is_given_may_be_required(self, stage: Stage) -> None:
        client = stage.client()
        client._session.unproven = (await guarantees(client)).level  # noqa: SLF001  # as `require=` does
        await release(await acquire(client.lock("x")))

    @driven
    async def test_an_engine_that_promises_too_little_grants_nothing(self, stage: Stage) -> None:
        client = stage.client()
        found = await guarantees(client)
        if found.level is Level.CONSENSUS:  # there is no higher level to require
            return
        client._session.unproven = Level(found.level + 1)  # noqa: SLF001  # as `require=` does
        for _ in range(2):
            with pytest.raises(GuaranteeMissing, match="is required, but"):
                await acquire(client.lock("x"), 0)
