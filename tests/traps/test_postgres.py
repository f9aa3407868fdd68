"""Traps 12, 34, 44, 45 and 47 on PostgreSQL."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Iterator
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
from tests.traps.colours import Client, Loop
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
def colour(request: pytest.FixtureRequest) -> Iterator[Loop | None]:
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


# --- 12: names that collide -----------------------------------------------------------------------


def test_trap_12_names_of_one_bucket_are_locks_of_their_own(
    postgres: Postgres, ports: list[Port]
) -> None:
    def two_bytes(name: str) -> bytes:
        return hashlib.sha256(name.encode()).digest()[:2]

    first = "job 0"
    other = next(
        name for name in (f"job {n}" for n in count(1)) if two_bytes(name) == two_bytes(first)
    )
    mine, theirs = (ports[0].ask(name) for name in (first, other))
    assert ports[0].granted(mine)
    assert ports[1].granted(theirs)
    assert postgres.command("SELECT count(*), count(DISTINCT b) FROM lockfast.claim") == [(2, 1)]
    assert ports[0].resign(mine)
    assert ports[1].renew(theirs)


# --- 34: PgBouncer in transaction mode ------------------------------------------------------------


def connected(url: str, loop: Loop | None, stack: list[lockfast.Client]) -> Client:
    if loop is not None:
        return loop.connect(url)
    client = lockfast.connect(url)
    stack.append(client)
    return client


def handed_over(url: str, loop: Loop | None) -> float:
    """Hold and renew, hand over to a waiter, and tell how long that took."""
    opened: list[lockfast.Client] = []
    loops = []
    try:
        mine, theirs = connected(url, loop, opened), connected(url, loop, opened)
        loops = [each for each in (mine, theirs) if not isinstance(each, lockfast.Client)]
        lease = mine.lock("x", ttl=0.6).acquire(timeout=SOON)
        waiter = in_background(lambda: theirs.lock("x", ttl=3.0).acquire(timeout=2 * SOON))
        wait_queue(mine.lock("x"), 2)
        assert not lease.wait_lost(1.5)  # renewed, through whichever connection there was
        began = time.monotonic()
        lease.release()
        successor = waiter.result(SOON)
        took = time.monotonic() - began
        assert successor.token > lease.token
        successor.release()
        assert mine.lock("x").queue() == []
        return took
    finally:
        for client in opened:
            client.close()
        for each in loops:
            each.close()  # type: ignore[attr-defined]  # a LoopClient


def test_trap_34_locks_work_behind_pgbouncer_in_transaction_mode(
    pooled: PgBouncer, postgres: Postgres, colour: Loop | None
) -> None:
    # Nothing can be heard through it: the waiter looks for itself, twice a second.
    assert handed_over(pooled.url, colour) < 2.0
    assert postgres.command("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]


def test_trap_34_a_direct_connection_to_listen_on_brings_the_pushes_back(
    pooled: PgBouncer, postgres: Postgres, colour: Loop | None
) -> None:
    assert handed_over(f"{pooled.url}?listen={postgres.url}", colour) < 0.4


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
    postgres: Postgres, ports: list[Port]
) -> None:
    holder = ports[0].ask(ttl=0.3)
    assert ports[0].granted(holder)
    with postgres.connect() as renewing:
        renewing.execute("BEGIN")
        renewing.execute(
            "SELECT * FROM lockfast.renew_v1(ARRAY[convert_to('x', 'UTF8')], %s)", [[holder.id]]
        )
        hopeful = in_background(lambda: ports[1].granted(ports[1].ask(queue=False)))
        time.sleep(0.5)  # past the first expiry, which the renewal has moved
        renewing.execute("COMMIT")
        # By now the renewed claim is over too: whoever is let in comes after it.
        assert hopeful.result(SOON) is True
    assert not ports[0].renew(holder)


# --- 45: isolation --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", LEVELS)
def test_trap_45_two_claimants_never_both_hold(postgres: Postgres, level: str) -> None:
    postgres.command(f"ALTER SYSTEM SET default_transaction_isolation = '{level}'")
    postgres.command("SELECT pg_reload_conf()")
    wait_until(
        lambda: postgres.command("SHOW default_transaction_isolation") == [(level,)], "reloaded"
    )
    barrier = threading.Barrier(2, timeout=30.0)
    rounds: list[list[bool | None]] = [[], []]

    def contend(which: int) -> None:
        port = Port(postgres)
        try:
            for _ in range(ROUNDS // len(LEVELS)):
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

    jobs = [in_background(lambda which=which: contend(which)) for which in (0, 1)]
    for job in jobs:
        job.result(60.0)
    assert {sum(map(bool, pair)) for pair in zip(*rounds, strict=True)} == {1}
    assert all(len(each) == ROUNDS // len(LEVELS) for each in rounds)


@pytest.mark.parametrize("level", LEVELS[1:])
def test_trap_45_the_functions_refuse_to_run_where_the_rule_would_not_hold(
    postgres: Postgres, level: str
) -> None:
    with postgres.connect() as connection:
        connection.execute(f"BEGIN ISOLATION LEVEL {level}".encode())
        with pytest.raises(psycopg.Error, match="READ COMMITTED only"):
            connection.execute("SELECT * FROM lockfast.renew_v1('{}', '{}')")
        connection.execute("ROLLBACK")


def test_a_grant_is_on_disk_before_it_is_told(postgres: Postgres) -> None:
    with postgres.connect() as connection:
        connection.execute("BEGIN")
        connection.execute("SET LOCAL synchronous_commit = off")
        connection.execute("SELECT * FROM lockfast.renew_v1('{}', '{}')")
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
        time.sleep(0.2)  # all three are queued up, in whatever order
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

    def bucket(name: str) -> object:
        return postgres.command(f"SELECT lockfast.bucket_v1(convert_to('{name}', 'UTF8'))")

    other = next(n for n in (f"job {n}" for n in range(1, 20000)) if bucket(n) == bucket(first))
    ports[0].granted(ports[0].ask(first))
    try:
        clock.advance(60.0)
        ports[1].renew(ports[1].ask(other))
        assert postgres.command("SELECT count(*) FROM lockfast.claim") == [(0,)]
    finally:
        clock.advance(-60.0)
