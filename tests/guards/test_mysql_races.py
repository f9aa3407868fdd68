"""Stale and fresh writers at once on MariaDB, at every isolation level: none is applied."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pymysql
import pytest

import lockfast
from lockfast import StaleToken
from lockfast.blocking.client import Lease
from lockfast.guards.mark import Shown, shown
from lockfast.guards.mysql import MysqlGuard
from lockfast.guards.mysql.statements import AGAIN, entering
from tests.guards.database import lease
from tests.guards.mariadb import usurped
from tests.guards.registers.mysql import SELECT, UPDATE, Link, connect, run
from tests.servers import MariaDB

LEVELS = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
ROUNDS = 60


@pytest.fixture(params=LEVELS)
def pair(mariadb: MariaDB, request: pytest.FixtureRequest) -> Iterator[tuple[Link, Link]]:
    """Two connections at one level."""
    with connect(mariadb.url) as one, connect(mariadb.url) as other:
        for connection in (one, other):
            run(connection, f"SET SESSION TRANSACTION ISOLATION LEVEL {request.param}")
        yield one, other


def value(connection: Link) -> str:
    return str(run(connection, SELECT)[0][0])


def write(guard: MysqlGuard, held: Lease, add: str, based_on: str | None) -> bool:
    """Write until it is done or refused; what is based on a read of its own reads it again."""
    while True:
        try:
            with guard.transaction(held) as cursor:
                base = based_on
                if base is None:
                    cursor.execute(SELECT)
                    base = cursor.fetchone()[0]
                dawdle()
                cursor.execute(UPDATE, [base + add])
                dawdle()
        except StaleToken:
            return False
        except pymysql.OperationalError as error:
            if error.args[0] not in AGAIN:
                raise
            continue  # the mark was asked: it is not stale, so it may try again
        return True


def dawdle() -> None:
    time.sleep(random.choice([0.0, 0.0, 0.001, 0.002]))  # noqa: S311  # no secret


def test_no_stale_write_lands_between_the_read_of_a_sealed_holder_and_its_write(
    pair: tuple[Link, Link], client: lockfast.Client, request: pytest.FixtureRequest
) -> None:
    """The fresh one adds to what it read after its seal, in another transaction. Whatever the stale
    one was told is done must be in there.
    """
    old, new = map(MysqlGuard, pair)
    applied = 0
    with ThreadPoolExecutor(1) as pool:
        for number in range(ROUNDS):
            stale, fresh = usurped(client, f"race {request.node.name} {number}")
            old.seal(stale)
            with old.transaction(stale) as cursor:
                cursor.execute(UPDATE, ["."])
            start = threading.Barrier(2)

            def zombie(stale: Lease = stale, start: threading.Barrier = start) -> int:
                start.wait()
                return sum(write(old, stale, "A", None) for _ in range(3) if not stale.loss)

            late = pool.submit(zombie)
            start.wait()
            dawdle()
            new.seal(fresh)
            seen = value(pair[1])
            dawdle()
            assert write(new, fresh, "B", seen)
            done = late.result(10)
            assert value(pair[1]) == "." + "A" * done + "B"
            applied += done
            fresh.release()
    print(f"{applied} writes of {3 * ROUNDS} came before the seal, and were read")  # noqa: T201  # a figure


def test_reads_within_the_transaction_need_no_seal(
    pair: tuple[Link, Link], client: lockfast.Client, request: pytest.FixtureRequest
) -> None:
    old, new = map(MysqlGuard, pair)
    with ThreadPoolExecutor(1) as pool:
        for number in range(ROUNDS):
            stale, fresh = usurped(client, f"inside {request.node.name} {number}")
            with old.transaction(stale) as cursor:
                cursor.execute(UPDATE, ["."])
            start = threading.Barrier(2)

            def zombie(stale: Lease = stale, start: threading.Barrier = start) -> int:
                start.wait()
                return sum(write(old, stale, "A", None) for _ in range(3) if not stale.loss)

            late = pool.submit(zombie)
            start.wait()
            dawdle()
            assert write(new, fresh, "B", None)
            assert value(pair[1]) == "." + "A" * late.result(10) + "B"
            fresh.release()


def test_without_the_seal_a_stale_write_lands_between_read_and_write(
    pair: tuple[Link, Link], client: lockfast.Client, request: pytest.FixtureRequest
) -> None:
    old, new = map(MysqlGuard, pair)
    for sealed in (False, True):
        stale, fresh = usurped(client, f"unsealed {request.node.name} {sealed}")
        with old.transaction(stale) as cursor:
            cursor.execute(UPDATE, ["."])
        if sealed:
            new.seal(fresh)
        seen = value(pair[1])
        assert write(old, stale, "A", None) is not sealed
        assert write(new, fresh, "B", seen)
        assert value(pair[1]) == ".B"  # and without the seal, an acknowledged A is lost


def test_a_snapshot_that_is_older_than_the_last_write_is_refused(
    pair: tuple[Link, Link], client: lockfast.Client, request: pytest.FixtureRequest
) -> None:
    """InnoDB would let it write on what it read: the stale holder's write would be lost."""
    mine, other = pair
    frozen = "REPEATABLE" in request.node.name
    for known in (False, True):
        stale, fresh = usurped(client, f"view {request.node.name} {known}")
        if known:
            MysqlGuard(other).seal(stale)
        mine.begin()
        run(mine, "SELECT * FROM watched")  # takes the snapshot
        with MysqlGuard(other).transaction(stale) as cursor:
            cursor.execute(UPDATE, ["A"])
        with mine.cursor() as cursor:
            if frozen:
                with pytest.raises(pymysql.Error, match="LF005"):
                    cursor.execute(entering([fresh]))
            else:
                cursor.execute(entering([fresh]))
                assert value(mine) == "A"
        mine.rollback()
        run(mine, "CALL lockfast_guard.forget_v1()")


def test_a_stale_holder_with_a_snapshot_of_its_own_mark_is_refused(
    pair: tuple[Link, Link], client: lockfast.Client, request: pytest.FixtureRequest
) -> None:
    mine, other = pair
    stale, fresh = usurped(client, f"own {request.node.name}")
    MysqlGuard(mine).seal(stale)
    mine.begin()
    run(mine, "SELECT * FROM watched")  # takes the snapshot
    MysqlGuard(other).seal(fresh)
    with pytest.raises(pymysql.Error, match="LF001"):
        run(mine, entering([stale]))
    mine.rollback()
    assert run(mine, "SELECT @lockfast_shown") == ((None,),)


def test_whoever_waits_for_the_mark_behind_the_next_holder_is_refused_when_it_gets_it(
    pair: tuple[Link, Link], client: lockfast.Client, request: pytest.FixtureRequest
) -> None:
    old, new = map(MysqlGuard, pair)
    stale, fresh = usurped(client, f"behind {request.node.name}")
    old.seal(stale)
    with ThreadPoolExecutor(1) as pool:
        with new.transaction(fresh) as cursor:
            cursor.execute(UPDATE, ["B"])
            late = pool.submit(write, old, stale, "A", None)
            with pytest.raises(TimeoutError):
                late.result(0.2)
        assert not late.result(10)


def test_a_holder_that_waited_behind_a_stale_commit_has_seen_it(
    pair: tuple[Link, Link], client: lockfast.Client, request: pytest.FixtureRequest
) -> None:
    """It writes elsewhere, so that only the mark can tell it to wait."""
    old, new = map(MysqlGuard, pair)
    stale, fresh = usurped(client, f"seen {request.node.name}")
    old.seal(stale)

    def copied() -> str:
        with new.transaction(fresh) as cursor:
            cursor.execute(SELECT)
            row = cursor.fetchone()
            cursor.execute("UPDATE watched SET value = %s", row)
        return str(row[0])

    with ThreadPoolExecutor(1) as pool:
        with old.transaction(stale) as cursor:
            cursor.execute(UPDATE, [f"A at {request.node.name}"])
            late = pool.submit(copied)
            with pytest.raises(TimeoutError):
                late.result(0.3)
        assert late.result(10) == f"A at {request.node.name}"


def test_holders_of_a_new_name_do_not_both_make_its_mark(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    """Nor do they deadlock: a locking read of a row that is not there would lock the gap."""
    count = "SHOW GLOBAL STATUS LIKE 'Innodb_deadlocks'"
    before = mariadb.command(count)
    assert before
    start = threading.Barrier(8)

    def sealed(link: Link, held: Shown) -> bool:
        start.wait(30)
        try:
            MysqlGuard(link).seal(held)
        except StaleToken:
            return False
        return True

    with ExitStack() as stack:
        links = [stack.enter_context(connect(mariadb.url)) for _ in range(8)]
        pool = stack.enter_context(ThreadPoolExecutor(8))
        for number in range(30):
            stale, fresh = usurped(client, f"new {number}")
            twins = [shown(stale), *[shown(fresh)] * 7]
            jobs = [pool.submit(sealed, *each) for each in zip(links, twins, strict=True)]
            assert all(job.result(30) for job in jobs[1:])
            jobs[0].result(30)
            with pytest.raises(StaleToken):
                MysqlGuard(links[0]).seal(stale)
            fresh.release()
    assert mariadb.command(count) == before


def test_a_collision_is_a_refusal_if_the_mark_says_so_and_else_the_callers(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    with (
        connect(mariadb.url) as one,
        connect(mariadb.url) as other,
        connect(mariadb.url) as third,
    ):
        run(one, "SET innodb_lock_wait_timeout = 1")
        third.begin()
        run(third, "UPDATE watched SET value = 'held'")
        held = lease(client, "1205")
        with (
            pytest.raises(pymysql.OperationalError, match="Lock wait timeout"),
            MysqlGuard(one).transaction(held) as cursor,
        ):
            cursor.execute("UPDATE watched SET value = 'late'")
        held.ensure_held()
        stale, fresh = usurped(client, "1205, stale")

        def overtaken() -> None:
            with MysqlGuard(one).transaction(stale) as cursor:
                try:
                    cursor.execute("UPDATE watched SET value = 'late'")
                except pymysql.OperationalError:
                    one.__dict__["_lockfast_bolt"]._send("ROLLBACK")  # lets go of the mark
                    MysqlGuard(other).seal(fresh)
                    raise

        with pytest.raises(StaleToken) as refused:
            overtaken()
        assert isinstance(refused.value.__cause__, pymysql.OperationalError)
        third.rollback()


def test_two_transactions_under_the_same_two_locks_do_not_deadlock(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    one, two = lease(client, "first of two"), lease(client, "second of two")
    with connect(mariadb.url) as a, connect(mariadb.url) as b, ThreadPoolExecutor(2) as pool:

        def many(connection: Link, leases: tuple[Lease, ...]) -> None:
            for _ in range(60):
                with MysqlGuard(connection).transaction(*leases):
                    pass

        for job in [pool.submit(many, a, (one, two)), pool.submit(many, b, (two, one))]:
            job.result(30)
