"""Many at once, where a release is half done when the engine is lost."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

import lockfast
from lockfast.blocking.client import Client
from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD
from lockfast.claims.session import Session
from lockfast.engines import opener
from lockfast.errors import EngineUnavailable
from lockfast.port import Ask
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.testing.harness.faults import Shaky
from lockfast.url import parse
from tests.servers.process import wait_until


class Half(Shaky):
    """Resigns the first of several, and then cannot reach the next server: as in a cluster."""

    halves = 1

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        if self.halves:
            self.halves -= 1
            done = await super().resign(asks[:1], deadline, doubt=doubt)
            lost = EngineUnavailable("no connection to the next server", sent=False)
            return [*done, *[lost] * (len(asks) - 1)]
        return await super().resign(asks, deadline, doubt=doubt)


def test_a_release_that_was_half_done_is_finished_and_is_no_loss() -> None:
    runtime, way = Threads(), Half()
    target = parse("memory://half")
    with Client(Session(lambda: way.to(opener(target, runtime)()), runtime)) as client:
        leases = client.lock_all("a", "b", "c").acquire()
        leases.release()
        assert way.halves == 0
        assert leases.state is lockfast.State.RELEASED
        for name in ("a", "b", "c"):
            assert client.lock(name).queue() == []


def test_what_is_lost_while_the_rest_is_waited_for_is_taken_again() -> None:
    def first() -> list[Claim]:
        return [
            claim
            for claim in list(client._session.table._by_id.values())
            if claim.shape.name == "a"
        ]

    with (
        lockfast.connect("memory://again") as other,
        lockfast.connect("memory://again") as client,
        ThreadPoolExecutor(1) as pool,
    ):
        in_the_way = other.lock("b").acquire()
        job = pool.submit(client.lock_all("a", "b", ttl=3).acquire)
        wait_until(lambda: any(claim.phase is HELD for claim in first()), "the first is held")
        (claim,) = first()
        other._session.enter()
        ask = Ask(claim.id, claim.shape, True, claim.ask.not_after, b"")  # noqa: FBT003  # as the port has it
        assert drive(other._session.engine.resign([ask], time.monotonic() + 5, doubt=False)) == [
            True
        ]
        wait_until(lambda: claim.loss is not None, "the loss is known")
        in_the_way.release()
        with job.result(20) as leases:
            assert leases.state is lockfast.State.HELD
            (holder,) = other.lock("a").holders()
            assert holder.id == leases.leases["a"].id != claim.id


@pytest.mark.parametrize("names", [(), ("a", "")])
def test_what_is_no_name_and_no_names_at_all_are_refused(names: tuple[str, ...]) -> None:
    with lockfast.connect("memory://") as client, pytest.raises(ValueError, match="name"):
        client.lock_all(*names)
