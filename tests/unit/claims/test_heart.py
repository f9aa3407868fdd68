"""The heart: what fails on one part of the engine costs nothing on another part."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Sequence

import lockfast
from lockfast.claims.renewing import BEHIND, CHUNK, MANY, chunks
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import Ask, Standing
from tests.servers.process import wait_until

SILENT, SHORT = 6.0, 1.2  # seconds of ttl, of leases on a part that is silent, and on another


def test_renewals_that_nobody_answers_cost_no_lease_of_a_shorter_ttl() -> None:
    """A batch had as much time as its own ttl allowed, and a crowd had it for each chunk."""
    with lockfast.connect("memory://") as client:
        silent = [client.lock(f"silent{n}", ttl=SILENT).acquire(timeout=5) for n in range(200)]
        engine = client._session.engine
        renew, asked = engine.renew, []

        async def partly(asks: Sequence[Ask], deadline: float) -> list[Standing | Exception | None]:
            if asks[0].shape.ttl == SILENT:
                asked.append(len(asks))
                time.sleep(max(deadline - client._session.runtime.now(), 0.0))  # noqa: ASYNC251  # a thread drives it
                raise EngineUnavailable("no answer in time", sent=True)
            return await renew(asks, deadline)

        engine.renew = partly  # type: ignore[method-assign]
        lease = client.lock("short", ttl=SHORT).acquire(timeout=5)
        end = time.monotonic() + 0.9 * SILENT
        while time.monotonic() < end:
            lease.ensure_held()
            time.sleep(0.02)
        assert asked
        assert len(silent) == 200
        engine.renew = renew  # type: ignore[method-assign]


def test_a_heart_that_is_behind_renews_more_claims_in_a_request() -> None:
    """In a busy event loop, requests of 64 claims were too few for the leases of a client."""
    with lockfast.connect("memory://") as client:
        leases = [client.lock(f"x{n}").acquire(timeout=5) for n in range(BEHIND)]
        claims = [lease.claim for lease in leases]
        usual, late = chunks([claims[: BEHIND - 1]]), chunks([claims[:100], claims[100:]])
        assert {len(each) for each in usual[:-1]} == {CHUNK}
        assert max(map(len, late)) == MANY
        assert {claim for each in late for claim in each} == set(claims)


def test_resignations_behind_one_that_is_refused_are_sent_too() -> None:
    """The heart stopped at the first chunk that was refused, again and again until its ttl."""
    with lockfast.connect("memory://") as client:
        session = client._session
        leases = [client.lock(f"x{n}").acquire(timeout=5) for n in range(CHUNK + 1)]
        resign = session.engine.resign

        async def partly(
            asks: Sequence[Ask], deadline: float, *, doubt: bool
        ) -> list[bool | Exception]:
            if any(ask.shape.name == "x0" for ask in asks):
                raise EngineRefused("not allowed, says the test")
            return await resign(asks, deadline, doubt=doubt)

        session.engine.resign = partly  # type: ignore[method-assign]
        for claim in session.table.all():
            session.table.leave(claim, session.runtime.now())
        with client.lock(f"x{CHUNK}").acquire(timeout=5):
            assert len(client.lock("x0").queue()) == 1
        assert len(leases) == CHUNK + 1
        session.engine.resign = resign  # type: ignore[method-assign]


def test_the_heart_of_a_client_that_only_reads_ends_as_soon_as_the_client_is_dropped() -> None:
    """Without a garbage collection, which may come late: the client is in no cycle."""
    gc.disable()
    try:
        client = lockfast.connect("memory://")
        client.guarantees()
        heart, session = client._session.heart, weakref.ref(client._session)
        assert heart is not None
        del client
        wait_until(lambda: session() is None and not heart.beating, "the heart ends")
    finally:
        gc.enable()
