"""Traps 34, 44 and 45 on PostgreSQL. What it shares with MariaDB is in test_databases.py."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

import lockfast
from lockfast import EngineRefused
from lockfast.engines.postgres import install, schema
from tests.servers import PgBouncer, Postgres, ServerClock, wait_until
from tests.traps.modes import Client, Loop
from tests.traps.ports import SOON, Port
from tests.traps.waiting import in_background, wait_queue

LEVELS = ["repeatable read", "serializable"]


@pytest.fixture(scope="module")
def clock() -> ServerClock:
    return ServerClock()


@pytest.fixture(scope="module")
def database(clock: ServerClock) -> Iterator[Postgres]:
    # What a power cut would cost is asked of no test here.
    with Postgres(env=clock.env, config={"fsync": "off"}) as server:
        install(server.url)
        yield server


@pytest.fixture
def postgres(database: Postgres) -> Postgres:
    database.command("DELETE FROM lockfast.claim; DELETE FROM lockfast.tombstone")
    return database


@pytest.fixture
def pooled(postgres: Postgres) -> Iterator[PgBouncer]:
    with PgBouncer(postgres) as bouncer:
        yield bouncer


@pytest.fixture(params=["threads", "asyncio"])
def mode(request: pytest.FixtureRequest) -> Iterator[Loop | None]:
    if request.param == "threads":
        yield None
        return
    with Loop() as loop:
        yield loop


@pytest.fixture
def ports(postgres: Postgres) -> Iterator[list[Port]]:
    ports = [Port(postgres.url), Port(postgres.url)]
    yield ports
    for port in ports:
        port.close()


def wait_blocked(server: Postgres, count: int) -> None:
    """Wait until so many requests wait for a lock inside the server."""
    wait_until(
        lambda: (
            server.command("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
            == [(count,)]
        ),
        f"{count} wait for a lock",
    )


# --- 34: PgBouncer in transaction mode ------------------------------------------------------------


def handed_over(url: str, loop: Loop | None) -> float:
    """Hold and renew, hand over to a waiter, and tell how long that took."""
    with ExitStack() as stack:

        def connect() -> Client:
            if loop is None:
                return stack.enter_context(lockfast.connect(url))
            return stack.enter_context(loop.connect(url))

        mine, theirs = connect(), connect()
        kept = mine.lock("kept", ttl=0.6).acquire(timeout=SOON)
        # Long leases: nobody looks again soon for another reason than to learn of the hand-over.
        lease = mine.lock("x", ttl=30.0).acquire(timeout=SOON)
        waiter = in_background(lambda: theirs.lock("x", ttl=30.0).acquire(timeout=2 * SOON))
        wait_queue(mine.lock("x"), 2)
        # It is renewed, through whichever connection there was. And the end is out of step with
        # a waiter that looks twice a second.
        assert not kept.wait_lost(1.6)
        kept.release()
        began = time.monotonic()
        lease.release()
        successor = waiter.result(SOON)
        took = time.monotonic() - began
        assert successor.token > lease.token
        successor.release()
        assert mine.lock("x").queue() == []
        return took


def test_trap_34_locks_work_behind_pgbouncer_in_transaction_mode(
    pooled: PgBouncer, postgres: Postgres, mode: Loop | None
) -> None:
    # Nothing can be heard through it: the waiter looks for itself, twice a second.
    assert handed_over(pooled.url, mode) < 1.2
    assert postgres.command("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]


def test_trap_34_a_direct_connection_to_listen_on_brings_the_pushes_back(
    pooled: PgBouncer, postgres: Postgres, mode: Loop | None
) -> None:
    assert handed_over(f"{pooled.url}?listen={postgres.url}", mode) < 0.25


# --- 44: expiry as a filter -----------------------------------------------------------------------


def test_trap_44_a_renewal_that_is_not_committed_yet_is_waited_for(
    postgres: Postgres, ports: list[Port], clock: ServerClock
) -> None:
    holder = ports[0].ask(ttl=5.0)
    assert ports[0].granted(holder)
    try:
        with postgres.connect() as renewing:
            clock.advance(4.0)
            renewing.execute("BEGIN")
            renewing.execute(
                "SELECT lockfast.renew_v2(ARRAY[convert_to('x', 'UTF8')], %s)", [[holder.id]]
            )
            hopeful = in_background(lambda: ports[1].granted(ports[1].ask(ttl=9.0, queue=False)))
            wait_blocked(postgres, 1)
            clock.advance(4.0)  # past the expiry that others see, and not past the renewed one
            renewing.execute("COMMIT")
        assert hopeful.result(SOON) is False
        assert ports[0].renew(holder)
    finally:
        clock.advance(-8.0)


# --- 45: isolation --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_trap_45_the_functions_refuse_to_run_where_the_rule_would_not_hold(
    postgres: Postgres, level: str
) -> None:
    with postgres.connect() as connection:
        connection.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        with pytest.raises(psycopg.Error, match="READ COMMITTED only"):
            connection.execute("SELECT lockfast.renew_v2('{}', '{}')")
        connection.execute("ROLLBACK")


def test_a_grant_is_on_disk_before_it_is_told(postgres: Postgres) -> None:
    with postgres.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("SET LOCAL synchronous_commit = off")
        connection.execute("SELECT lockfast.renew_v2('{}', '{}')")
        assert connection.execute("SHOW synchronous_commit").fetchall() == [("on",)]
        connection.execute("ROLLBACK")


# --- the schema -----------------------------------------------------------------------------------


def test_a_database_without_the_schema_says_what_to_do(postgres: Postgres) -> None:
    postgres.command("DROP DATABASE IF EXISTS bare")
    postgres.command("CREATE DATABASE bare")
    url = postgres.url.removesuffix("/postgres") + "/bare"
    with lockfast.connect(url) as client:
        with pytest.raises(EngineRefused, match="install"):
            client.lock("x").acquire(timeout=1)
        install(url)
        install(url)
        with client.lock("x"):
            pass
    assert "CREATE SCHEMA IF NOT EXISTS lockfast" in schema()
