"""PostgreSQL in trouble: restarted, paused, replaced by its replica, behind PgBouncer."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import psycopg
import pytest

import lockfast
from lockfast.core.validity import State
from lockfast.engines.postgres import install
from lockfast.errors import EngineUnavailable
from lockfast.testing import (
    MODES,
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
from lockfast.testing.harness.verbs import acquire, queue, release, try_acquire
from tests.contract.benches import PostgresBench
from tests.servers import PgBouncer, Postgres, ServerClock, wait_until


@pytest.fixture(scope="module")
def shared() -> Iterator[Postgres]:
    with Postgres(config={"log_connections": "on"}) as server:
        install(server.url)
        yield server


@pytest.fixture
def bench(shared: Postgres) -> PostgresBench:
    return PostgresBench(shared)


def test_leases_survive_a_restart_and_waiters_get_their_turn(
    shared: Postgres, stage: Stage
) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=6.0))
        waiting = stage.mode.start(acquire(other.lock("x", ttl=6.0), 30))
        await stage.mode.until(lambda: lease.waiters == 1, "the holder learns that one waits")
        shared.restart()
        fresh = await acquire(client.lock("fresh", ttl=6.0), 10)
        await stage.mode.until(lambda: lease.state is State.HELD, "it is renewed again")
        assert not waiting.done()
        before = time.monotonic()
        await release(lease)
        after = await waiting.result()
        assert time.monotonic() - before < 4  # the heart listens again, or has looked
        assert after.token > lease.token
        await release(after)
        await release(fresh)

    stage.mode.run(play())


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

    stage.mode.run(play())


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
            await stage.mode.sleep(0.05)

    stage.mode.run(play())


def in_step(primary: Postgres, replica: Postgres) -> None:
    """Wait until the replica has all that the primary has."""
    position = primary.command("SELECT pg_current_wal_lsn()")[0][0]
    wait_until(
        lambda: (
            replica.command(f"SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn") == [(True,)]
        ),
        "the replica is in step",
    )


@pytest.mark.parametrize("mode", sorted(MODES))
def test_after_a_failover_tokens_go_on_and_the_new_primary_is_found(
    mode: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Postgres() as primary:
        install(primary.url)
        with Postgres(replica_of=primary) as replica:
            hosts = f"{primary.host}:{primary.port},{replica.host}:{replica.port}"
            bench = PostgresBench(primary, url=f"postgresql://postgres@{hosts}/postgres")
            stage = Stage(bench, MODES[mode]())

            async def play() -> None:
                client = stage.client()
                lease = await acquire(client.lock("x", ttl=8.0))
                in_step(primary, replica)
                died = time.monotonic()
                primary.kill()
                replica.promote()
                promoted = time.monotonic()
                await release(await acquire(client.lock("free", ttl=8.0), 10))
                granted = time.monotonic()
                said = f"{granted - died:.2f} s after the death of the primary"
                also = f"{granted - promoted:.2f} s after the promotion"
                with capsys.disabled():
                    sys.stdout.write(f"\nPostgreSQL, {mode}: granted {said}, {also}\n")
                assert granted - promoted < 3.0
                assert await try_acquire(stage.client().lock("x", ttl=8.0)) is None
                await stage.mode.until(lambda: lease.state is State.HELD, "it is renewed")
                await release(lease)
                again = await acquire(client.lock("x", ttl=8.0), 5)
                assert again.token > lease.token
                await release(again)

            stage.mode.run(play())
            stage.mode.run(stage.clear())
            stage.mode.close()


def test_a_stale_replica_whose_clock_is_behind_gives_higher_tokens_all_the_same() -> None:
    clock = ServerClock()
    with Postgres(env=clock.env, config={"fsync": "off"}) as primary:
        install(primary.url)
        with Postgres(replica_of=primary) as replica:
            with lockfast.connect(primary.url) as client:
                client.lock("x").acquire().release()
                in_step(primary, replica)
                # From here on it hears nothing more; and the primary's clock is ten minutes ahead.
                replica.command("ALTER SYSTEM SET primary_conninfo = ''")
                replica.command("SELECT pg_reload_conf()")
                wait_until(
                    lambda: replica.command("SELECT FROM pg_stat_wal_receiver") == [],
                    "the replica is cut off",
                )
                clock.advance(600.0)
                missed = client.lock("x").acquire(timeout=10)
                missed.release()
            primary.kill()
            replica.promote()
            with lockfast.connect(replica.url) as client:
                again = client.lock("x").acquire(timeout=10)
                assert again.token > missed.token
                again.release()
                # Once for each change of timeline, and not with every token.
                third = client.lock("x").acquire(timeout=10)
                assert third.token - again.token < 60e6
                third.release()


def test_a_promotion_that_missed_how_tokens_were_raised_by_the_one_before_raises_them_higher(
    shared: Postgres,
) -> None:
    def token(timeline: int) -> int:
        shared.command(
            "CREATE OR REPLACE FUNCTION lockfast.line_v1() RETURNS text LANGUAGE plpgsql AS "
            f"$$ BEGIN RETURN '{timeline:08X}'; END $$"
        )
        with lockfast.connect(shared.url) as client, client.lock("x") as lease:
            return lease.token

    try:
        token(9)
        # It was raised not long ago, so its counter is ahead of every clock.
        shared.command("CREATE TABLE stale AS SELECT * FROM lockfast.bucket")
        missed = token(10)
        # None of that has reached the next to be promoted.
        shared.command(
            "UPDATE lockfast.bucket k SET last = s.last, line = s.line FROM stale s WHERE s.b = k.b"
        )
        assert token(11) > missed
    finally:
        install(shared.url)
        shared.command("UPDATE lockfast.bucket SET last = DEFAULT, line = DEFAULT")


def test_a_user_who_may_not_know_the_timeline_can_lock_all_the_same(shared: Postgres) -> None:
    shared.command("CREATE ROLE blind LOGIN")
    shared.command("CREATE DATABASE dark OWNER blind")
    dark = f"{shared.url.removesuffix('/postgres')}/dark"
    # The owner of the schema is who would know: the functions run as him.
    with psycopg.connect(dark, autocommit=True) as connection:
        connection.execute("REVOKE EXECUTE ON FUNCTION pg_walfile_name FROM PUBLIC")
    install(dark.replace("postgres@", "blind@"))
    tokens = []
    for user in ("blind", "postgres", "blind"):
        url = dark.replace("postgres@", f"{user}@")
        with lockfast.connect(url) as client, client.lock("x") as lease:
            tokens.append(lease.token)
    assert tokens == sorted(set(tokens))
    assert tokens[2] - tokens[0] < 3600e6


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


def test_a_crowd_shares_ten_connections_and_the_heart_has_its_own(
    shared: Postgres, stage: Stage
) -> None:
    def opened() -> int:
        return shared.log_path.read_bytes().count(b"connection authorized")

    async def play() -> None:
        client = stage.client()
        before = opened()
        locks = [client.lock(f"job {n}", ttl=30) for n in range(60)]
        leases = await stage.mode.together(*(acquire(lock) for lock in locks))
        for lease in leases:
            await release(lease)
        assert opened() - before <= 11

    stage.mode.run(play())
