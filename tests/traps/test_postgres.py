"""Traps 12, 34, 44, 45 and 47 on PostgreSQL."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count

import psycopg
import pytest

import lockfast
from lockfast import EngineRefused
from lockfast.engines import opener
from lockfast.engines.postgres import install, schema
from lockfast.port import Ask, Shape
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.servers import PgBouncer, Postgres, ServerClock, wait_until
from tests.traps.modes import Client, Loop
from tests.traps.waiting import in_background, wait_queue

SOON = 5.0
LEVELS = ["read committed", "repeatable read", "serializable"]
ROUNDS = 2000


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


class Port:
    """An engine that is asked directly."""

    def __init__(self, server: Postgres) -> None:
        self.engine = opener(parse(server.url), Threads())()
        self._prefix = secrets.token_hex(11)
        self._numbers = count()

    def ask(self, name: str = "x", ttl: float = 5.0, *, queue: bool = True) -> Ask:
        shape = Shape(name, ttl)
        ident = f"{self._prefix}{next(self._numbers):010x}"
        return Ask(ident, shape, queue, now() + shape.wait_ttl, b"")

    def granted(self, ask: Ask) -> bool | None:
        """Claim: None if the id is dead."""
        standing = drive(self.engine.claim(ask, now() + SOON))
        return None if standing is None else standing.granted

    def resign(self, ask: Ask, *, doubt: bool = False) -> bool:
        return drive(self.engine.resign([ask], now() + SOON, doubt=doubt))[0]

    def renew(self, ask: Ask) -> bool:
        return drive(self.engine.renew([ask], now() + SOON))[0] is not None

    def close(self) -> None:
        drive(self.engine.close())


@pytest.fixture
def ports(postgres: Postgres) -> Iterator[list[Port]]:
    ports = [Port(postgres), Port(postgres)]
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


def digest(name: str) -> bytes:
    return hashlib.sha256(name.encode()).digest()


# --- 12: names that collide -----------------------------------------------------------------------


def test_trap_12_names_of_one_bucket_are_locks_of_their_own(
    postgres: Postgres, ports: list[Port]
) -> None:
    first = "job 0"
    names = (f"job {number}" for number in count(1))
    other = next(name for name in names if digest(name)[:2] == digest(first)[:2])
    mine, theirs = (ports[0].ask(name) for name in (first, other))
    assert ports[0].granted(mine)
    assert ports[1].granted(theirs)
    assert postgres.command("SELECT count(*), count(DISTINCT b) FROM lockfast.claim") == [(2, 1)]
    assert ports[0].resign(mine)
    assert ports[1].renew(theirs)


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


def test_trap_44_a_clock_that_goes_back_brings_no_dead_holder_to_life(
    ports: list[Port], clock: ServerClock
) -> None:
    dead, successor = ports[0].ask(ttl=5.0), ports[1].ask(ttl=5.0)
    assert ports[0].granted(dead)
    try:
        clock.advance(6.0)
        drive(ports[1].engine.renew([ports[1].ask("elsewhere")], now() + SOON))  # tells the time
        assert ports[1].granted(successor)
    finally:
        clock.advance(-6.0)
    assert not ports[0].renew(dead)
    assert ports[1].renew(successor)
    assert not ports[0].granted(ports[0].ask())


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


@pytest.fixture(params=LEVELS)
def default_level(request: pytest.FixtureRequest, postgres: Postgres) -> Iterator[str]:
    """What the server runs transactions in, unless they say something else."""

    def settle(level: str) -> None:
        postgres.command(f"ALTER SYSTEM SET default_transaction_isolation = '{level}'")
        postgres.command("SELECT pg_reload_conf()")
        wait_until(
            lambda: postgres.command("SHOW default_transaction_isolation") == [(level,)],
            f"the default is {level}",
        )

    settle(request.param)
    yield request.param
    settle(LEVELS[0])


@pytest.mark.usefixtures("default_level")
def test_trap_45_two_claimants_never_both_hold(postgres: Postgres) -> None:
    barrier = threading.Barrier(2, timeout=30.0)
    rounds: list[list[bool | None]] = [[], []]

    def contend(which: int) -> None:
        port = Port(postgres)
        try:
            for _ in range(ROUNDS):
                ask = port.ask(queue=False)
                barrier.wait()
                granted = port.granted(ask)
                rounds[which].append(granted)
                barrier.wait()
                if granted:
                    port.resign(ask)
        except BaseException:
            barrier.abort()
            raise
        finally:
            port.close()

    jobs = [in_background(partial(contend, which)) for which in (0, 1)]
    for job in jobs:
        job.result(60.0)
    assert {sum(map(bool, pair)) for pair in zip(*rounds, strict=True)} == {1}
    assert all(len(each) == ROUNDS for each in rounds)


@pytest.mark.parametrize("level", LEVELS[1:])
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


# --- 47: a copy that arrives after the resignation ------------------------------------------------


def test_trap_47_a_copy_that_the_server_applies_late_stays_dead(
    postgres: Postgres, ports: list[Port]
) -> None:
    warm = ports[0].ask("warm")
    ports[0].granted(warm)
    late = ports[0].ask()
    with postgres.connect() as blocker:
        # The claim waits inside the server while its sender gives up, and resigns elsewhere.
        blocker.execute("BEGIN")
        blocker.execute(
            "SELECT FROM lockfast.bucket WHERE b = lockfast.bucket_v1(convert_to('x', 'UTF8')) "
            "FOR UPDATE"
        )
        copies = [in_background(lambda: ports[0].granted(late)) for _ in range(2)]
        resigning = in_background(lambda: ports[1].resign(late, doubt=True))
        wait_blocked(postgres, 3)  # in whatever order
        blocker.execute("COMMIT")
    resigning.result(SOON)
    for copy in copies:
        copy.result(SOON)
    assert ports[0].granted(late) is None
    assert ports[1].granted(ports[1].ask(queue=False))


def test_trap_47_a_tombstone_does_not_stay_for_ever(
    postgres: Postgres, ports: list[Port], clock: ServerClock
) -> None:
    ports[0].resign(ports[0].ask(), doubt=True)
    assert postgres.command("SELECT count(*) FROM lockfast.tombstone") == [(1,)]
    try:
        clock.advance(60.0)
        ports[0].renew(ports[0].ask())
        assert postgres.command("SELECT count(*) FROM lockfast.tombstone") == [(0,)]
    finally:
        clock.advance(-60.0)


def test_trap_47_a_tombstone_is_dated_by_the_servers_clock_and_never_shortened(
    postgres: Postgres, ports: list[Port]
) -> None:
    """One who breaks a claim knows neither when it was sent, nor the server's clock by then."""
    broken = ports[0].ask()
    assert ports[0].granted(broken)
    breaker = Ask(broken.id, broken.shape, queue=True, not_after=now() - 3600, payload=b"")
    assert ports[1].resign(breaker, doubt=True)
    left = "SELECT until - lockfast.micros_v1() FROM lockfast.tombstone"
    assert postgres.command(left)[0][0] > 10e6
    broken.not_after = now() + 30
    ports[0].resign(broken, doubt=True)
    ports[1].resign(breaker, doubt=True)
    assert postgres.command(left)[0][0] > 25e6


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


def test_a_lock_that_nobody_asks_for_again_leaves_nothing(
    postgres: Postgres, ports: list[Port], clock: ServerClock
) -> None:
    first = "job 0"
    names = (f"job {number}" for number in count(1))
    other = next(name for name in names if digest(name)[:2] == digest(first)[:2])
    ports[0].granted(ports[0].ask(first))
    try:
        clock.advance(60.0)
        ports[1].renew(ports[1].ask(other))
        assert postgres.command("SELECT count(*) FROM lockfast.claim") == [(0,)]
    finally:
        clock.advance(-60.0)
