"""Traps 12, 44, 45 and 47 on the databases that keep locks as rows: PostgreSQL and MariaDB."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

from lockfast.port import Ask
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from tests.servers import MariaDB, Postgres, ServerClock
from tests.traps.databases import Database, MariadbDatabase, PostgresDatabase
from tests.traps.ports import SOON, Port
from tests.traps.waiting import in_background

LEVELS = ["read committed", "repeatable read", "serializable"]


@pytest.fixture(scope="module", params=["postgres", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[Database]:
    # What a power cut would cost is asked of no test here.
    clock = ServerClock()
    if request.param == "postgres":
        with Postgres(env=clock.env, config={"fsync": "off"}) as postgres:
            yield PostgresDatabase(postgres, clock)
    else:
        config = {"innodb-flush-log-at-trx-commit": "0"}
        with MariaDB(env=clock.env, config=config) as mariadb:
            yield MariadbDatabase(mariadb, clock)


@pytest.fixture
def database(server: Database) -> Database:
    server.wipe()
    return server


@pytest.fixture
def clock(database: Database) -> ServerClock:
    return database.clock


@pytest.fixture
def ports(database: Database) -> Iterator[list[Port]]:
    ports = [database.port(), database.port()]
    yield ports
    for port in ports:
        port.close()


# --- 12: names that collide -----------------------------------------------------------------------


def test_trap_12_names_of_one_bucket_are_locks_of_their_own(
    database: Database, ports: list[Port]
) -> None:
    mine, theirs = (ports[0].ask(name) for name in database.neighbours())
    assert ports[0].granted(mine)
    assert ports[1].granted(theirs)
    assert (database.rows("claim"), database.buckets()) == (2, 1)
    assert ports[0].resign(mine)
    assert ports[1].renew(theirs)


# --- 44: expiry -----------------------------------------------------------------------------------


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


def test_a_lock_that_nobody_asks_for_again_leaves_nothing(
    database: Database, ports: list[Port], clock: ServerClock
) -> None:
    first, other = database.neighbours()
    ports[0].granted(ports[0].ask(first))
    try:
        clock.advance(60.0)
        ports[1].renew(ports[1].ask(other))
        assert database.rows("claim") == 0
    finally:
        clock.advance(-60.0)


# --- 45: isolation --------------------------------------------------------------------------------


@pytest.fixture(params=LEVELS)
def default_level(request: pytest.FixtureRequest, database: Database) -> Iterator[None]:
    """What the server runs transactions in, unless they say something else."""
    database.default(request.param)
    yield
    database.default(LEVELS[0])


@pytest.mark.usefixtures("default_level")
def test_trap_45_two_claimants_never_both_hold(database: Database) -> None:
    barrier = threading.Barrier(2, timeout=30.0)
    rounds: list[list[bool | None]] = [[], []]

    def contend(which: int) -> None:
        port = database.port()
        try:
            for _ in range(database.rounds):
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
    assert all(len(each) == database.rounds for each in rounds)


# --- 47: a copy that arrives after the resignation ------------------------------------------------


def test_trap_47_a_copy_that_the_server_applies_late_stays_dead(
    database: Database, ports: list[Port]
) -> None:
    warm = ports[0].ask("warm")
    ports[0].granted(warm)
    late = ports[0].ask()
    with database.held("x"):
        # The claim waits inside the server while its sender gives up, and resigns elsewhere.
        copies = [in_background(lambda: ports[0].granted(late)) for _ in range(2)]
        resigning = in_background(lambda: ports[1].resign(late, doubt=True))
        database.wait_blocked(3)  # in whatever order
    resigning.result(SOON)
    for copy in copies:
        copy.result(SOON)
    assert ports[0].granted(late) is None
    assert ports[1].granted(ports[1].ask(queue=False))


def test_trap_47_a_tombstone_does_not_stay_for_ever(
    database: Database, ports: list[Port], clock: ServerClock
) -> None:
    ports[0].resign(ports[0].ask(), doubt=True)
    assert database.rows("tombstone") == 1
    try:
        clock.advance(60.0)
        ports[0].renew(ports[0].ask())
        assert database.rows("tombstone") == 0
    finally:
        clock.advance(-60.0)


def test_trap_47_a_tombstone_is_dated_by_the_servers_clock_and_never_shortened(
    database: Database, ports: list[Port]
) -> None:
    """One who breaks a claim knows neither when it was sent, nor the server's clock by then."""
    broken = ports[0].ask()
    assert ports[0].granted(broken)
    breaker = Ask(broken.id, broken.shape, queue=True, not_after=now() - 3600, payload=b"")
    assert ports[1].resign(breaker, doubt=True)
    assert database.tombstone_left() > 10
    broken.not_after = now() + 30
    ports[0].resign(broken, doubt=True)
    ports[1].resign(breaker, doubt=True)
    assert database.tombstone_left() > 25
