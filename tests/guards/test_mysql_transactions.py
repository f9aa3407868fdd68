"""What a guarded transaction does to its connection, and how it notices that it has ended."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pymysql
import pytest
from pymysql.constants import CLIENT

import lockfast
from lockfast import LeaseLost, StaleToken, Unguarded
from lockfast.guards.mysql import MysqlGuard, install, protect, unprotect
from tests.guards.database import lease
from tests.guards.mariadb import usurped
from tests.guards.registers.mysql import SELECT, UPDATE, Link, connect, run
from tests.servers import MariaDB

SESSION = "SELECT @@wait_timeout, @@innodb_lock_wait_timeout, @lockfast_shown, @@autocommit"


def value(server: MariaDB) -> str:
    return str(server.command("SELECT value FROM app.register WHERE id = 1")[0][0])


@pytest.mark.parametrize("autocommit", [False, True])
def test_an_error_rolls_back_and_the_connection_is_as_before(
    mariadb: MariaDB,
    client: lockfast.Client,
    autocommit: bool,  # noqa: FBT001  # a parameter
) -> None:
    with connect(mariadb.url, autocommit=autocommit) as connection:
        run(connection, "SET wait_timeout = 1000, innodb_lock_wait_timeout = 40")
        before = run(connection, SESSION)
        guard, held = MysqlGuard(connection), lease(client, f"rollback {autocommit}")
        with pytest.raises(ZeroDivisionError), guard.transaction(held) as cursor:
            cursor.execute(UPDATE, ["never"])
            raise ZeroDivisionError
        assert run(connection, SESSION) == before
        with guard.transaction(held) as cursor:
            cursor.execute(UPDATE, [f"autocommit {autocommit}"])
            assert run(connection, SESSION)[0][:2] == (30, 30)
        assert run(connection, SESSION) == before
        guard.seal(held)
        assert run(connection, SESSION) == before
        assert value(mariadb) == f"autocommit {autocommit}"
        stale, fresh = usurped(client, f"as before {autocommit}")
        guard.seal(fresh)
        for _ in range(2):
            with pytest.raises((StaleToken, LeaseLost)), guard.transaction(stale):
                pytest.fail("it was let in")
            assert run(connection, SESSION) == before
        connection.commit()  # it is not bolted any more
        connection.begin()
        connection.rollback()


def test_a_shorter_timeout_of_the_session_is_kept(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    with connect(mariadb.url) as connection:
        run(connection, "SET innodb_lock_wait_timeout = 3")
        with MysqlGuard(connection).transaction(lease(client, "shorter")):
            assert run(connection, SESSION)[0][:2] == (30, 3)


def test_a_connection_in_a_transaction_is_not_committed_behind_its_back(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    held = lease(client, "open")
    with connect(mariadb.url, autocommit=False) as connection:
        guard = MysqlGuard(connection)
        before = value(mariadb)
        with connection.cursor() as cursor:
            cursor.execute(UPDATE, ["uncommitted"])
        for way in (guard.seal, lambda at: guard.transaction(at).__enter__()):
            with pytest.raises(pymysql.Error, match="in a transaction already"):
                way(held)
            assert run(connection, SELECT) == (("uncommitted",),)
        connection.rollback()
        assert value(mariadb) == before


ENDINGS = [
    "COMMIT",
    "ROLLBACK",
    "commit work",
    " /* a helper */ COMMIT",
    "-- a helper\nROLLBACK",
    "# a helper\n rollback",
    "COMMIT AND CHAIN",
    "ROLLBACK AND CHAIN",
    "BEGIN",
    "START TRANSACTION",
    "CREATE TABLE made (id INT)",
    "CREATE OR REPLACE TABLE register (id INT)",
    "ALTER TABLE register ADD COLUMN more INT",
    "DROP TABLE register",
    "TRUNCATE register",
    "RENAME TABLE register TO other",
    "GRANT SELECT ON app.* TO root@'%'",
    "LOCK TABLES register WRITE",
    "XA START 'x'",
]


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_statement_that_would_end_the_transaction_is_not_sent(
    mariadb: MariaDB,
    client: lockfast.Client,
    ending: str,
    autocommit: bool,  # noqa: FBT001  # a parameter
) -> None:
    """DDL commits implicitly: half of the block would be committed, and the rest unguarded."""
    held = lease(client, f"{ending} {autocommit}")
    before = mariadb.command("SELECT * FROM app.register")
    with connect(mariadb.url, autocommit=autocommit) as connection:
        guard = MysqlGuard(connection)
        with pytest.raises(Unguarded, match="was not sent"), guard.transaction(held) as cursor:
            cursor.execute(UPDATE, ["half"])
            cursor.execute(ending)
        for _ in range(2):  # the block catches it, and goes on
            with pytest.raises(Unguarded, match="was not sent"), guard.transaction(held) as cursor:
                cursor.execute(UPDATE, ["half"])
                with suppress(Unguarded):
                    cursor.execute(ending)
                with pytest.raises(Unguarded):
                    cursor.execute(UPDATE, ["more"])
        assert mariadb.command("SELECT * FROM app.register") == before
        with guard.transaction(held) as cursor:
            cursor.execute(UPDATE, ["after"])
    assert value(mariadb) == "after"


@pytest.mark.parametrize("word", ["commit", "rollback", "begin", "autocommit", "connect"])
def test_a_method_of_the_connection_does_not_end_it_either(
    mariadb: MariaDB, link: Link, client: lockfast.Client, word: str
) -> None:
    held = lease(client, word)
    with (
        pytest.raises(Unguarded, match=rf"connection\.{word}\(\) would end"),
        MysqlGuard(link).transaction(held) as cursor,
    ):
        cursor.execute(UPDATE, ["half"])
        with suppress(Unguarded):
            getattr(link, word)(*[True] * (word == "autocommit"))
    assert value(mariadb) == "none"
    if word != "connect":  # which would leave the socket to the garbage collector
        getattr(link, word)(*[True] * (word == "autocommit"))


def _procedure(connection: Link) -> None:
    run(connection, "CALL helper()")


def _prepared(connection: Link) -> None:
    run(connection, "PREPARE ended FROM 'COMMIT'")
    run(connection, "EXECUTE ended")


def _hidden(connection: Link) -> None:
    run(connection, "/*!50000 COMMIT */")


def _failed_ddl(connection: Link) -> None:
    """It fails, and has committed all the same. An error does not say so."""
    with pytest.raises(pymysql.Error, match="already exists"):
        run(connection, "/*!50000 CREATE TABLE register (id INT) */")


def _analyze(connection: Link) -> None:
    run(connection, "ANALYZE TABLE register")


def _several(connection: Link) -> None:
    run(connection, "SELECT 1; COMMIT")


def _set_statement(connection: Link) -> None:
    run(connection, "SET STATEMENT max_statement_time = 5 FOR COMMIT")


UNSEEN: list[Callable[[Link], None]] = [
    _procedure,
    _prepared,
    _hidden,
    _failed_ddl,
    _analyze,
    _several,
    _set_statement,
]


@pytest.mark.parametrize("autocommit", [False, True])
@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("end", UNSEEN)
def test_a_statement_behind_the_end_of_the_transaction_is_not_sent(
    mariadb: MariaDB,
    client: lockfast.Client,
    end: Callable[[Link], None],
    again: bool,  # noqa: FBT001  # a parameter
    autocommit: bool,  # noqa: FBT001  # a parameter
) -> None:
    """By a helper that commits where no look at its text shows it. The lock has passed on since."""
    mariadb.command("UPDATE app.register SET value = 'none'")
    mariadb.command("CREATE OR REPLACE PROCEDURE app.helper() COMMIT")
    stale, fresh = usurped(client, f"{end.__name__} {again} {autocommit}")
    several = {"client_flag": CLIENT.MULTI_STATEMENTS} if end is _several else {}
    with (
        connect(mariadb.url, autocommit=autocommit, **several) as connection,
        connect(mariadb.url) as other,
    ):
        with (
            pytest.raises(Unguarded, match="had ended"),
            MysqlGuard(connection).transaction(stale) as cursor,
        ):
            end(connection)
            MysqlGuard(other).seal(fresh)
            if again:
                with pytest.raises(Unguarded, match="had ended"):
                    cursor.execute(UPDATE, ["stale"])
                with pytest.raises(Unguarded, match="had ended"):
                    cursor.execute(SELECT)
        assert value(mariadb) == "none"
        with MysqlGuard(connection).transaction(fresh) as cursor:
            cursor.execute(UPDATE, ["fresh"])
        assert value(mariadb) == "fresh"


def test_a_deadlock_that_the_block_has_caught_is_not_taken_for_a_commit(
    mariadb: MariaDB, link: Link, client: lockfast.Client
) -> None:
    mariadb.command("REPLACE INTO app.watched VALUES (2, 'two')")
    held = lease(client, "deadlock")
    with connect(mariadb.url) as other, ThreadPoolExecutor(1) as pool:
        run(other, "SET innodb_lock_wait_timeout = 20")
        with (
            pytest.raises(Unguarded, match="had ended"),
            MysqlGuard(link).transaction(held) as cursor,
        ):
            cursor.execute(UPDATE, ["lost"])
            other.begin()
            run(other, "UPDATE watched SET value = 'heavy', id = id + 10")  # the heavier one stays
            waiting = pool.submit(run, other, "UPDATE register SET value = 'other'")
            with suppress(TimeoutError):
                waiting.result(0.5)
            with pytest.raises(pymysql.Error) as caught:
                cursor.execute("UPDATE watched SET value = 'mine'")
            assert caught.value.args[0] == 1213
            waiting.result(10)
            other.rollback()
            with pytest.raises(Unguarded, match="had ended"):
                cursor.execute(UPDATE, ["unguarded"])
    assert value(mariadb) == "none"


def test_a_second_transaction_that_a_procedure_has_begun_is_not_committed(
    mariadb: MariaDB, link: Link, client: lockfast.Client
) -> None:
    mariadb.command(
        "CREATE OR REPLACE PROCEDURE app.chained() BEGIN COMMIT; START TRANSACTION; END"
    )
    stale, fresh = usurped(client, "chained")
    with (
        connect(mariadb.url) as other,
        pytest.raises(Unguarded, match="had ended"),
        MysqlGuard(link).transaction(stale) as cursor,
    ):
        cursor.execute("CALL chained()")
        MysqlGuard(other).seal(fresh)
        cursor.execute(UPDATE, ["stale"])
    assert value(mariadb) == "none"
    assert run(link, SESSION)[0][2] is None


def test_savepoints_within_the_block_are_part_of_it(
    mariadb: MariaDB, link: Link, client: lockfast.Client
) -> None:
    held = lease(client, "savepoints")
    with MysqlGuard(link).transaction(held) as cursor:
        cursor.execute(UPDATE, ["first"])
        cursor.execute("SAVEPOINT mine")
        cursor.execute(UPDATE, ["second"])
        cursor.execute("ROLLBACK TO SAVEPOINT mine")
        cursor.execute("ROLLBACK WORK TO mine")
        cursor.execute("RELEASE SAVEPOINT mine")
        cursor.execute("SAVEPOINT left_open")
    assert value(mariadb) == "first"
    mariadb.command("UPDATE app.register SET value = 'none'")
    with MysqlGuard(link).transaction(held) as cursor:
        cursor.execute(UPDATE, ["undone"])
        cursor.execute("ROLLBACK TO lockfast_guard")  # it does not undo the check
    assert value(mariadb) == "none"
    stale, fresh = usurped(client, "savepoints, stale")
    with connect(mariadb.url) as other, MysqlGuard(link).transaction(stale) as cursor:
        cursor.execute("ROLLBACK TO lockfast_guard")
        run(other, "SET innodb_lock_wait_timeout = 1")
        with pytest.raises(pymysql.Error, match="Lock wait timeout"):
            MysqlGuard(other).seal(fresh)


def test_an_error_that_ends_only_its_statement_leaves_the_block_as_it_is(
    mariadb: MariaDB, link: Link, client: lockfast.Client
) -> None:
    with MysqlGuard(link).transaction(lease(client, "statement")) as cursor:
        cursor.execute(UPDATE, ["first"])
        with pytest.raises(pymysql.IntegrityError):
            cursor.execute("INSERT INTO register (id, value) VALUES (1, 'twice')")
        cursor.execute("CREATE TEMPORARY TABLE scratch (id INT)")
        cursor.execute("DROP TEMPORARY TABLE scratch")
        cursor.executemany(UPDATE, [["a;b"], ["second"]])
        cursor.execute("SET @mine = 1")
        cursor.execute("(SELECT 1)")
        cursor.execute(b"SELECT 1")
    assert value(mariadb) == "second"


def test_a_second_connection_is_not_part_of_the_block(
    mariadb: MariaDB, link: Link, client: lockfast.Client
) -> None:
    """It is not guarded, and the page says so. It is not bolted either."""
    with connect(mariadb.url) as other, MysqlGuard(link).transaction(lease(client, "second")):
        other.begin()
        run(other, "SELECT @lockfast_shown")
        assert run(other, SESSION)[0][2] is None
        other.commit()


def test_a_connection_may_come_from_a_pool(mariadb: MariaDB, client: lockfast.Client) -> None:
    held = lease(client, "pool")
    entered: list[str] = []

    @contextlib.contextmanager
    def pool() -> Iterator[Link]:
        with connect(mariadb.url) as connection:
            entered.append("in")
            yield connection
            entered.append("out")

    guard = MysqlGuard(pool)
    guard.seal(held)
    with guard.transaction(held) as cursor:
        cursor.execute(UPDATE, ["pool"])
    assert value(mariadb) == "pool"
    stale, fresh = usurped(client, "pool, stale")
    guard.seal(fresh)
    with pytest.raises(StaleToken), guard.transaction(stale):
        pytest.fail("it was let in")
    assert entered == ["in", "out"] * 3 + ["in"]


def test_a_lease_that_its_own_clock_has_ended_does_not_write(
    link: Link, client: lockfast.Client
) -> None:
    held = lease(client, "over")
    held.claim.until = 0.0
    with pytest.raises(LeaseLost):
        MysqlGuard(link).seal(held)
    with pytest.raises(LeaseLost), MysqlGuard(link).transaction(held):
        pytest.fail("it was let in")
    assert run(link, SESSION)[0][2] is None
    link.begin()
    link.rollback()


def test_a_lost_connection_is_the_drivers_error_unless_the_lease_is_over(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    for over in (False, True):
        held = lease(client, f"cut {over}")
        wanted = LeaseLost if over else pymysql.Error
        connection = connect(mariadb.url)
        with pytest.raises(wanted), MysqlGuard(connection).transaction(held) as cursor:
            ((ident,),) = run(connection, "SELECT CONNECTION_ID()")
            mariadb.command(f"KILL {ident}")
            if over:
                held.claim.until = 0.0
            cursor.execute(UPDATE, ["never"])


def test_installing_again_changes_no_mark(link: Link, client: lockfast.Client) -> None:
    stale, fresh = usurped(client, "again")
    MysqlGuard(link).seal(fresh)
    run(link, "SET sql_mode = 'ORACLE', lock_wait_timeout = 77")  # another grammar of procedures
    before = run(link, "SELECT @@sql_mode, @@lock_wait_timeout")
    install(link)
    protect(link, "watched", "watched")
    unprotect(link, "watched")
    assert run(link, "SELECT @@sql_mode, @@lock_wait_timeout") == before
    with pytest.raises(StaleToken):
        MysqlGuard(link).seal(stale)
