"""PostgreSQL in trouble: restarted, paused, replaced by its replica, behind PgBouncer."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lockfast.core.validity import State
from lockfast.engines.postgres import install
from lockfast.errors import EngineUnavailable
from lockfast.testing import (
    COLOURS,
    ClaimContract,
    CrowdContract,
    InspectContract,
    ListenContract,
    QueueContract,
    RenewContract,
    ResignContract,
    Stage,
    WakeContract,
)
from lockfast.testing.verbs import acquire, queue, release, try_acquire
from tests.contract.benches import PostgresBench
from tests.servers import PgBouncer, Postgres, ServerClock, wait_until


@pytest.fixture(scope="module")
def shared() -> Iterator[Postgres]:
    with Postgres() as server:
        install(server.url)
        yield server


@pytest.fixture(params=sorted(COLOURS))
def stage(request: pytest.FixtureRequest, shared: Postgres) -> Iterator[Stage]:
    colour = COLOURS[request.param]()
    stage = Stage(PostgresBench(shared), colour)
    yield stage
    colour.run(stage.clear())
    colour.close()


def test_leases_survive_a_restart_and_waiters_get_their_turn(
    shared: Postgres, stage: Stage
) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=6.0))
        waiting = stage.colour.start(acquire(other.lock("x", ttl=6.0), 30))
        await stage.colour.until(lambda: lease.waiters == 1, "the holder learns that one waits")
        shared.restart()
        fresh = await acquire(client.lock("fresh", ttl=6.0), 10)
        await stage.colour.until(lambda: lease.state is State.HELD, "it is renewed again")
        assert not waiting.done()
        before = time.monotonic()
        await release(lease)
        after = await waiting.result()
        assert time.monotonic() - before < 4  # the heart listens again, or has looked
        assert after.token > lease.token
        await release(after)
        await release(fresh)

    stage.colour.run(play())


def test_a_crash_forgets_no_grant(shared: Postgres, stage: Stage) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=8.0))
        shared.kill()
        shared.start(timeout=20)
        assert await try_acquire(other.lock("x", ttl=8.0)) is None
        await release(lease)
        again = await acquire(other.lock("x", ttl=8.0), 5)
        assert again.token > lease.token
        await release(again)

    stage.colour.run(play())


def test_a_paused_server_keeps_nobody_waiting_for_longer_than_asked(
    shared: Postgres, stage: Stage
) -> None:
    async def play() -> None:
        client = stage.client()
        await release(await acquire(client.lock("warm", ttl=5.0)))
        shared.pause()
        try:
            began = time.monotonic()
            with pytest.raises(EngineUnavailable):
                await acquire(client.lock("x", ttl=5.0), 1.0)
            assert time.monotonic() - began < 2.5
        finally:
            shared.resume()
        # What the server read before it stood still is applied now, and given up all the same.
        end = time.monotonic() + 4
        while await queue(client.lock("x")):
            assert time.monotonic() < end, "an orphan"
            await stage.colour.sleep(0.05)

    stage.colour.run(play())


@pytest.mark.parametrize("colour", sorted(COLOURS))
def test_after_a_failover_tokens_go_on_and_the_new_primary_is_found(colour: str) -> None:
    with Postgres() as primary:
        install(primary.url)
        with Postgres(replica_of=primary) as replica:
            hosts = f"{primary.host}:{primary.port},{replica.host}:{replica.port}"
            bench = PostgresBench(primary, url=f"postgresql://postgres@{hosts}/postgres")
            stage = Stage(bench, COLOURS[colour]())

            async def play() -> None:
                client = stage.client()
                lease = await acquire(client.lock("x", ttl=8.0))
                position = primary.command("SELECT pg_current_wal_lsn()")[0][0]
                wait_until(
                    lambda: (
                        replica.command(f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn")
                        == [(True,)]
                    ),
                    "the replica is in step",
                )
                primary.kill()
                replica.promote()
                assert await try_acquire(stage.client().lock("x", ttl=8.0)) is None
                await stage.colour.until(lambda: lease.state is State.HELD, "it is renewed")
                await release(lease)
                again = await acquire(client.lock("x", ttl=8.0), 5)
                assert again.token > lease.token
                await release(again)

            stage.colour.run(play())
            stage.colour.run(stage.clear())
            stage.colour.close()


@pytest.fixture(scope="module")
def pooled() -> Iterator[PostgresBench]:
    clock = ServerClock()
    with Postgres(env=clock.env, config={"fsync": "off"}) as server, PgBouncer(server) as pool:
        install(server.url)
        yield PostgresBench(server, url=pool.url, clock=clock)


class TestPgBouncer(ClaimContract, RenewContract, ResignContract, InspectContract):
    """All but the pushes, which do not come through it."""

    @pytest.fixture
    def bench(self, pooled: PostgresBench) -> PostgresBench:
        return pooled


class TestPgBouncerWithAnEar(QueueContract, WakeContract, ListenContract, CrowdContract):
    """The pushes too, where the heart has a connection past it."""

    @pytest.fixture
    def bench(self, pooled: PostgresBench) -> Iterator[PostgresBench]:
        without = pooled.url
        pooled.url = f"{without}?listen={pooled.server.url}"
        yield pooled
        pooled.url = without
