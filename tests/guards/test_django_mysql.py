"""The guard for Django on MariaDB, over PyMySQL in the place of mysqlclient."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext, suppress
from functools import partial

import pytest
from django import test
from django.db import DatabaseError, NotSupportedError, connections, transaction

import lockfast
from lockfast import LeaseLost, StaleToken, State, Unguarded
from lockfast.guards import django as guard
from lockfast.guards.mark import shown
from lockfast.guards.mysql import MysqlGuard, protect, schema, unprotect
from tests.guards import story
from tests.guards.database import lease
from tests.guards.mariadb import usurped
from tests.guards.registers.django import MARIADB, Invoice, MariaModel, Row, configure
from tests.guards.registers.mysql import Rows, connect
from tests.servers import MariaDB, Redis

guarded = partial(guard.guarded, using=MARIADB)
seal = partial(guard.seal, using=MARIADB)
atomic = partial(transaction.atomic, using=MARIADB)
SESSION = "SELECT @@wait_timeout, @@innodb_lock_wait_timeout, @lockfast_shown, @@autocommit"


@pytest.fixture(scope="module", autouse=True)
def tables(mariadb: MariaDB) -> Iterator[None]:
    mariadb.command("CREATE TABLE app.invoice (id INT PRIMARY KEY, paid BOOL NOT NULL)")
    mariadb.command("INSERT INTO app.invoice VALUES (1, 0), (2, 0), (3, 0)")
    mariadb.command("CREATE PROCEDURE app.helper() COMMIT")
    mariadb.command("CREATE PROCEDURE app.chained() BEGIN COMMIT; START TRANSACTION; END")
    configure(mariadb.url)
    yield
    connections.close_all()


@pytest.fixture
def client(mariadb: MariaDB) -> Iterator[lockfast.Client]:
    mariadb.command("UPDATE app.register SET value = 'none'")
    with lockfast.connect("memory://") as client:
        yield client


def run(statement: str) -> Rows:
    with connections[MARIADB].cursor() as cursor:
        cursor.execute(statement)
        return tuple(cursor.fetchall())


def value() -> str:
    return str(Row.objects.using(MARIADB).get(pk=1).value)


def committed(server: MariaDB) -> str:
    return str(server.command("SELECT value FROM app.register WHERE id = 1")[0][0])


def set_value(new: str) -> None:
    row = Row.objects.using(MARIADB).get(pk=1)
    row.value = new
    row.save()


def test_a_holder_that_was_paused_is_refused_and_the_next_ones_value_stands(
    redis: Redis, mariadb: MariaDB
) -> None:
    story.refused(redis.url, MariaModel, mariadb.url)


def test_with_the_guard_switched_off_the_paused_holder_overwrites(
    redis: Redis, mariadb: MariaDB
) -> None:
    story.corrupted(redis.url, MariaModel, mariadb.url, "bare")


def test_a_refusal_makes_the_lease_lost_and_leaves_the_connection_usable(
    client: lockfast.Client,
) -> None:
    before = run(SESSION)
    stale, fresh = usurped(client, "refusal")
    seal(fresh)
    with pytest.raises(StaleToken) as caught, guarded(stale):
        pytest.fail("it was let in")
    assert caught.value.current == fresh.token
    assert stale.state is State.LOST
    with pytest.raises(StaleToken):
        seal(stale)
    for each in "abb":
        with guarded(fresh):
            set_value(each)
            assert run(SESSION) != before
        assert run(SESSION) == before
    assert value() == "b"


def test_the_bodys_error_rolls_back_and_the_connection_is_as_before(
    client: lockfast.Client,
) -> None:
    before = run(SESSION)
    with pytest.raises(ZeroDivisionError), guarded(lease(client, "rollback")):
        set_value("never")
        raise ZeroDivisionError
    assert value() == "none"
    assert run(SESSION) == before
    held = lease(client, "over")
    held.claim.until = 0.0
    with pytest.raises(LeaseLost), guarded(held):
        pytest.fail("it was let in")
    assert run(SESSION) == before
    with pytest.raises(DatabaseError), guarded(lease(client, "broken")):
        with suppress(DatabaseError), atomic(savepoint=False):
            run("SELECT * FROM nowhere")
        set_value("never")
    assert run(SESSION) == before


def test_it_nests_as_atomic_does(client: lockfast.Client) -> None:
    stale, fresh = usurped(client, "nested")
    seal(fresh)
    with atomic():
        with guarded(fresh):
            set_value("nested")
        with pytest.raises(StaleToken), guarded(stale):
            pytest.fail("it was let in")
        assert value() == "nested"  # the savepoint alone was rolled back
        with pytest.raises(RuntimeError, match="durable"):
            seal(fresh)
        with pytest.raises(RuntimeError, match="durable"), guarded(fresh, durable=True):
            pytest.fail("it was let in")
    assert value() == "nested"


@pytest.mark.parametrize(
    "how",
    ["COMMIT", "ROLLBACK", "COMMIT AND CHAIN", "BEGIN", "DROP TABLE register", "TRUNCATE register"],
)
@pytest.mark.parametrize("nested", [False, True])
def test_a_statement_that_would_end_the_transaction_is_not_sent(
    mariadb: MariaDB,
    client: lockfast.Client,
    how: str,
    nested: bool,  # noqa: FBT001  # a parameter
) -> None:
    held = lease(client, how)
    outer = guarded(lease(client, f"{how}, outer")) if nested else nullcontext()
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(Unguarded, match="was not sent"))
        stack.enter_context(outer)
        stack.enter_context(guarded(held))
        set_value("half")
        with pytest.raises(Unguarded):
            run(how)
        with pytest.raises(Unguarded):
            set_value("more")
    assert committed(mariadb) == "none"
    with guarded(held):
        set_value("after")
    assert committed(mariadb) == "after"


@pytest.mark.parametrize(
    "how", ["CALL helper()", "/*!50000 COMMIT */", "ANALYZE TABLE register", "driver", "failed"]
)
@pytest.mark.parametrize("more", [False, True])
@pytest.mark.parametrize("nested", [False, True])
def test_a_statement_behind_the_end_of_the_transaction_is_not_sent(
    mariadb: MariaDB,
    client: lockfast.Client,
    how: str,
    more: bool,  # noqa: FBT001  # a parameter
    nested: bool,  # noqa: FBT001  # a parameter
) -> None:
    held = lease(client, f"behind {how}")
    outer = guarded(lease(client, f"{how}, outer")) if nested else nullcontext()
    with ExitStack() as stack:
        stack.enter_context(pytest.raises((Unguarded, DatabaseError)))
        stack.enter_context(outer)
        stack.enter_context(guarded(held))
        if how == "driver":
            with pytest.raises(Unguarded):
                connections[MARIADB].connection.commit()
        elif how == "failed":
            with suppress(DatabaseError):
                run("/*!50000 CREATE TABLE register (id INT) */")
        else:
            run(how)
        if more:
            with pytest.raises(Unguarded):
                set_value("stale")
    assert committed(mariadb) == "none"
    with guarded(held):
        set_value("after")


def test_a_second_transaction_that_a_procedure_has_begun_is_not_committed(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    with pytest.raises(Unguarded, match="had ended"), guarded(lease(client, "chained")):
        run("CALL chained()")
        set_value("stale")
    assert committed(mariadb) == "none"
    outer, inner = lease(client, "outer"), lease(client, "inner")
    with pytest.raises(Unguarded, match="had ended"), guarded(outer):
        run("CALL chained()")
        # Django's own savepoint is gone too.
        with pytest.raises((Unguarded, DatabaseError)), guarded(inner):
            run("CALL chained()")
            set_value("stale")
        connections[MARIADB].needs_rollback = False  # as a careless block does
    assert committed(mariadb) == "none"


def test_a_block_within_a_block_shares_its_transaction(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    before = run(SESSION)
    outer, inner = lease(client, "invoice:1"), lease(client, "invoice:2")
    with connect(mariadb.url) as connection:
        protect(connection, "invoice", "invoice:{id}")
    try:
        with guarded(outer):
            with guarded(inner):
                Invoice.objects.using(MARIADB).filter(pk__in=[1, 2]).update(paid=True)
            with pytest.raises(ZeroDivisionError), guarded(inner):
                raise ZeroDivisionError
            Invoice.objects.using(MARIADB).filter(pk=1).update(paid=False)
            assert run(SESSION)[0][:2] != before[0][:2]
        assert run(SESSION) == before
        with pytest.raises(DatabaseError, match="LF002"):
            Invoice.objects.using(MARIADB).filter(pk=1).update(paid=False)
        with pytest.raises(Unguarded), guarded(inner):
            Invoice.objects.using(MARIADB).filter(pk=1).update(paid=False)
    finally:
        with connect(mariadb.url) as connection:
            unprotect(connection, "invoice")


def test_djangos_own_commit_is_refused_in_the_block(client: lockfast.Client) -> None:
    with (
        pytest.raises(transaction.TransactionManagementError),
        guarded(lease(client, "commit")),
    ):
        transaction.commit(using=MARIADB)


def test_a_snapshot_of_the_outer_block_that_is_too_old_is_refused(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    """Else the holder would build on a value that the stale one has changed since."""
    stale, fresh = usurped(client, "snapshot")
    connections[MARIADB].close()
    options = connections.settings[MARIADB]["OPTIONS"]
    options["isolation_level"] = "repeatable read"
    try:
        with pytest.raises(DatabaseError, match="LF005"), atomic():
            assert value() == "none"
            with connect(mariadb.url) as other, MysqlGuard(other).transaction(stale) as cursor:
                cursor.execute("UPDATE register SET value = 'stale, in time'")
            with guarded(fresh):
                set_value(value() + ", lost")
        with guarded(fresh):
            set_value(value() + ", fresh")
        assert value() == "stale, in time, fresh"
    finally:
        del options["isolation_level"]
        connections[MARIADB].close()


def test_a_collision_is_a_refusal_if_the_mark_says_so_and_else_the_callers(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "1205")
    with connect(mariadb.url) as blocker, connect(mariadb.url) as other:
        blocker.begin()
        with blocker.cursor() as cursor:
            cursor.execute("UPDATE register SET value = 'held'")

        def disturbed() -> None:
            run("SET innodb_lock_wait_timeout = 1")
            Row.objects.using(MARIADB).filter(pk=1).update(value="late")

        with pytest.raises(DatabaseError, match="Lock wait timeout"), guarded(stale):
            disturbed()
        stale.ensure_held()
        with pytest.raises(StaleToken), guarded(stale):
            try:
                disturbed()
            except DatabaseError:
                driver = connections[MARIADB].connection
                vars(driver)["_lockfast_bolt"]._send("ROLLBACK")  # lets go of the mark
                MysqlGuard(other).seal(fresh)
                raise
        blocker.rollback()


def test_a_fenced_model_is_saved_and_deleted_only_under_its_own_lock(
    client: lockfast.Client,
) -> None:
    one = Invoice.objects.using(MARIADB).get(pk=1)
    with guarded(lease(client, "invoice:1")):
        one.paid = True
        one.save()
    with pytest.raises(Unguarded, match="invoice:1"):
        one.save()
    with pytest.raises(Unguarded, match="invoice:1"), guarded(lease(client, "invoice:2")):
        one.delete()


def test_what_a_request_has_shown_is_as_good_as_a_lease(client: lockfast.Client) -> None:
    stale, fresh = usurped(client, "afar")
    seal(shown(fresh))
    with guarded(shown(fresh)):
        set_value("afar")
    with pytest.raises(StaleToken), guarded(shown(stale)):
        pytest.fail("it was let in")


def test_the_lease_itself_cannot_be_asked(client: lockfast.Client) -> None:
    with (
        pytest.raises(NotSupportedError, match="PostgreSQL"),
        guarded(lease(client, "asked"), check_lease=True),
    ):
        pytest.fail("it was let in")


def test_both_work_in_a_test_case_where_nothing_is_committed(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    class Case(test.TestCase):
        databases = {MARIADB}  # noqa: RUF012  # Django's

        def runTest(self) -> None:  # noqa: N802  # unittest's
            held = lease(client, "test case")
            seal(held)
            with guarded(held):
                set_value("never")
            assert value() == "never"

    result = unittest.TestResult()
    unittest.TestSuite([Case()]).run(result)  # with the fixtures of the class
    assert result.wasSuccessful(), result.errors + result.failures
    assert committed(mariadb) == "none"


def test_a_migration_can_install_it(client: lockfast.Client) -> None:
    with MariaDB() as server:
        server.command("CREATE DATABASE app")
        before = dict(connections.settings[MARIADB])
        configure(server.url)
        try:
            held = lease(client, "migrated")
            with pytest.raises(Unguarded, match="install"), guarded(held):
                pytest.fail("it was let in")
            connection = connections[MARIADB]
            for _ in range(2):
                with connection.schema_editor() as editor:
                    for each in schema():  # as RunSQL does with a list
                        editor.execute(each, params=None)
                    editor.execute("CREATE OR REPLACE TABLE migrated (id INT PRIMARY KEY)")
                    protect(connection, "migrated", "migrated")  # as RunPython does
            with guarded(held):
                run("INSERT INTO migrated VALUES (1)")
            with pytest.raises(DatabaseError, match="LF002"):
                run("INSERT INTO migrated VALUES (2)")
        finally:
            connections.close_all()
            connections.settings[MARIADB].update(before)
