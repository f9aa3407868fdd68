"""The trigger form on MariaDB: the table itself refuses whoever shows no current token."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pymysql
import pytest

import lockfast
from lockfast import StaleToken, State, Unguarded
from lockfast.blocking.client import Lease
from lockfast.guards.mysql import MysqlGuard, protect, unprotect
from tests.guards.database import lease, shared
from tests.guards.mariadb import usurped
from tests.guards.registers.mysql import Link, connect, run
from tests.servers import MariaDB

SHOW = "SET @lockfast_name = %s, @lockfast_token = %s, @lockfast_id = %s"


@pytest.fixture
def shell(mariadb: MariaDB) -> Iterator[Link]:
    """A connection, and a table of two rows under the lock `watched`."""
    with connect(mariadb.url, local_infile=True) as connection:
        for each in (
            "DROP TABLE IF EXISTS kid, watched, invoice, ledger",
            "CREATE TABLE watched (id INT PRIMARY KEY, value VARCHAR(200) NOT NULL)",
            "INSERT INTO watched VALUES (1, 'one'), (2, 'two')",
            "CREATE TABLE invoice (id INT PRIMARY KEY AUTO_INCREMENT, region CHAR(9), paid BOOL)",
            "INSERT INTO invoice VALUES (1, 'eu', 0), (2, 'eu', 0), (3, 'eu', 0), (5, 'eu', 0)",
        ):
            run(connection, each)
        protect(connection, "watched", "watched")
        protect(connection, "app.invoice", "inv:{region}:{id}")
        yield connection


def show(connection: Link, held: Lease) -> None:
    run(connection, SHOW, [held.name, held.token, held.id])


def refused(connection: Link, statement: str, code: str = "LF002") -> None:
    with pytest.raises(pymysql.Error, match=code):
        run(connection, statement)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "rows").write_text("1\tloaded\n7\tloaded\n", encoding="ascii")
    return tmp_path


WRITES = [
    "UPDATE watched SET value = 'x'",
    "UPDATE watched SET value = value",
    "UPDATE IGNORE watched SET value = 'x' WHERE id = 1",
    "INSERT INTO watched VALUES (3, 'x')",
    "INSERT IGNORE INTO watched VALUES (1, 'x'), (3, 'x')",
    "INSERT INTO watched VALUES (1, 'x') ON DUPLICATE KEY UPDATE value = 'x'",
    "INSERT IGNORE INTO watched VALUES (1, 'x') ON DUPLICATE KEY UPDATE value = 'x'",
    "INSERT INTO watched SELECT id + 10, value FROM watched",
    "REPLACE INTO watched VALUES (1, 'x')",
    "REPLACE INTO watched VALUES (3, 'x')",
    "DELETE FROM watched",
    "DELETE IGNORE FROM watched WHERE id = 1",
    "DELETE FROM watched LIMIT 1",
    "UPDATE watched JOIN register SET watched.value = 'x'",
    "UPDATE register, watched SET register.value = 'x', watched.value = 'x'",
    "DELETE watched FROM watched JOIN register ON watched.id = register.id",
    "LOAD DATA LOCAL INFILE '{}/rows' INTO TABLE watched",
    "LOAD DATA LOCAL INFILE '{}/rows' REPLACE INTO TABLE watched",
    "LOAD DATA LOCAL INFILE '{}/rows' IGNORE INTO TABLE watched",
]


@pytest.mark.parametrize("mode", ["", "STRICT_ALL_TABLES"])
@pytest.mark.parametrize("statement", WRITES)
def test_every_way_to_write_a_row_is_refused(  # noqa: PLR0913, PLR0917  # fixtures
    mariadb: MariaDB, shell: Link, client: lockfast.Client, files: Path, statement: str, mode: str
) -> None:
    statement = statement.format(files)
    before = mariadb.command("SELECT * FROM app.watched, app.register")
    run(shell, "SET sql_mode = %s", [mode])
    refused(shell, statement)
    stale, fresh = usurped(client, "watched")
    MysqlGuard(shell).seal(fresh)
    show(shell, stale)
    refused(shell, statement, "LF001")
    assert mariadb.command("SELECT * FROM app.watched, app.register") == before
    show(shell, fresh)
    run(shell, statement)
    fresh.release()


def test_what_writes_nothing_is_not_stopped(shell: Link) -> None:
    run(shell, "INSERT IGNORE INTO watched VALUES (1, 'x')")
    run(shell, "UPDATE watched SET value = 'x' WHERE id = 99")
    run(shell, "DELETE FROM watched WHERE id = 99")
    run(shell, "SELECT * FROM watched FOR UPDATE")


@pytest.mark.parametrize("word", ["name", "token", "id"])
@pytest.mark.parametrize("text", [None, "", "x", " 5", "1.5", "-1", "1e3"])
def test_a_variable_that_is_no_lease_opens_nothing(
    shell: Link, client: lockfast.Client, word: str, text: str | None
) -> None:
    with client.lock("watched") as held:
        show(shell, held)
        run(shell, f"SET @lockfast_{word} = %s", [text])
        refused(shell, "UPDATE watched SET value = 'x'", "lockfast")
        show(shell, held)
        run(shell, "UPDATE watched SET value = 'x'")


def test_the_token_of_another_lock_opens_nothing(shell: Link, client: lockfast.Client) -> None:
    for name in ("another", "Watched", "watched ", "wätched"):
        show(shell, lease(client, name))
        refused(shell, "UPDATE watched SET value = 'x'")
        with (
            pytest.raises(Unguarded, match=r"app\.watched needs the token of the lock watched"),
            MysqlGuard(shell).transaction(lease(client, name + "!")) as cursor,
        ):
            cursor.execute("UPDATE watched SET value = 'x'")


@pytest.mark.parametrize("charset", ["utf8mb4", "latin1"])
def test_a_name_is_the_same_in_every_character_set(
    mariadb: MariaDB, shell: Link, client: lockfast.Client, charset: str
) -> None:
    run(
        shell,
        "INSERT INTO register (id, value) VALUES (9, 'ä') ON DUPLICATE KEY UPDATE value = 'ä'",
    )
    protect(shell, "register", "ö'{value}\\")
    try:
        with client.lock("ö'ä\\") as held, connect(mariadb.url, charset=charset) as connection:
            write = "UPDATE register SET fence_token = fence_token + 1 WHERE id = 9"
            refused(connection, write)
            show(connection, held)
            run(connection, write)
            run(connection, SHOW, [None, None, None])
            with MysqlGuard(connection).transaction(held) as cursor:
                cursor.execute(write)
    finally:
        unprotect(shell, "register")


def test_a_guarded_transaction_needs_to_say_nothing_more_and_leaves_nothing_behind(
    shell: Link, client: lockfast.Client
) -> None:
    guard = MysqlGuard(shell)
    with client.lock("watched") as held, client.lock("other") as other:
        for leases in ((held,), (held, other), (other, held)):
            with guard.transaction(*leases) as cursor:
                cursor.execute("UPDATE watched SET value = 'x'")
            refused(shell, "UPDATE watched SET value = 'forgotten'")
            with pytest.raises(ZeroDivisionError), guard.transaction(*leases):
                raise ZeroDivisionError
            refused(shell, "UPDATE watched SET value = 'forgotten'")
        guard.seal(held)
        refused(shell, "UPDATE watched SET value = 'forgotten'")


def test_a_reader_may_write_where_the_guard_admits_it(shell: Link, client: lockfast.Client) -> None:
    unprotect(shell, "watched")
    protect(shell, "watched", "read, watched")
    first, second = shared(client, "read, watched"), shared(client, "read, watched")
    for held in (second, first):
        with MysqlGuard(shell).transaction(held) as cursor:
            cursor.execute("UPDATE watched SET value = 'x'")


def test_a_block_that_was_ended_by_a_procedure_is_still_checked_row_by_row(
    mariadb: MariaDB, shell: Link, client: lockfast.Client
) -> None:
    """The block cannot see it before its end. The trigger compares with the mark once more."""
    mariadb.command(
        "CREATE OR REPLACE PROCEDURE app.chained() BEGIN COMMIT; START TRANSACTION; END"
    )
    stale, fresh = usurped(client, "watched")
    with (
        connect(mariadb.url) as other,
        pytest.raises(StaleToken),
        MysqlGuard(shell).transaction(stale) as cursor,
    ):
        cursor.execute("CALL chained()")
        cursor.execute("SELECT * FROM register")  # takes a snapshot, with the old mark
        MysqlGuard(other).seal(fresh)
        cursor.execute("UPDATE watched SET value = 'stale'")


@pytest.mark.parametrize(
    "level", ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"]
)
def test_the_mark_of_an_old_snapshot_is_not_taken_for_the_mark(
    mariadb: MariaDB, shell: Link, client: lockfast.Client, level: str
) -> None:
    stale, fresh = usurped(client, "watched")
    MysqlGuard(shell).seal(stale)
    with connect(mariadb.url) as other:
        run(shell, f"SET TRANSACTION ISOLATION LEVEL {level}")
        shell.begin()
        run(shell, "SELECT * FROM lockfast_guard.mark WHERE name = 'other'")  # takes the snapshot
        run(shell, "SELECT * FROM register WHERE id = 99")
        MysqlGuard(other).seal(fresh)
        show(shell, stale)
        refused(shell, "UPDATE watched SET value = 'stale'", "LF001")
        shell.rollback()


def test_a_write_that_was_admitted_keeps_the_next_holder_waiting(
    mariadb: MariaDB, shell: Link, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "watched")
    MysqlGuard(shell).seal(stale)
    show(shell, stale)
    with connect(mariadb.url) as other, ThreadPoolExecutor(1) as pool:
        shell.begin()
        run(shell, "UPDATE watched SET value = 'before'")
        sealing = pool.submit(MysqlGuard(other).seal, fresh)
        with pytest.raises(TimeoutError):
            sealing.result(0.4)
        shell.commit()
        sealing.result(10)
    refused(shell, "UPDATE watched SET value = 'stale'", "LF001")


def test_rows_may_have_locks_of_their_own(shell: Link, client: lockfast.Client) -> None:
    guard = MysqlGuard(shell)
    one, two = lease(client, "inv:eu:1"), lease(client, "inv:eu:2")
    with guard.transaction(one) as cursor:
        cursor.execute("UPDATE invoice SET paid = 1 WHERE id = 1")
    with guard.transaction(two, one) as cursor:
        cursor.execute("UPDATE invoice SET paid = 1 WHERE id IN (1, 2)")
    for statement in (
        "UPDATE invoice SET paid = 1 WHERE id <= 2",
        "UPDATE invoice SET region = 'us' WHERE id = 1",  # it moves under another lock
        "UPDATE invoice SET id = 10 WHERE id = 1",
        "INSERT INTO invoice VALUES (11, 'eu', 0)",
        "DELETE FROM invoice WHERE id = 3",
        "REPLACE INTO invoice VALUES (3, 'eu', 0)",
        "INSERT INTO invoice VALUES (3, 'eu', 0) ON DUPLICATE KEY UPDATE paid = 1",
    ):
        with pytest.raises(Unguarded), guard.transaction(one) as cursor:
            cursor.execute(statement)
    assert one.state is State.HELD
    elsewhere = lease(client, "inv:us:1")
    with pytest.raises(Unguarded, match="inv:eu:1"), guard.transaction(elsewhere) as cursor:
        cursor.execute("UPDATE invoice SET region = 'us' WHERE id = 1")
    with guard.transaction(one) as cursor:
        cursor.execute("DELETE FROM invoice WHERE id = 1")
    with guard.transaction(lease(client, "inv::5"), lease(client, "inv:eu:5")) as cursor:
        cursor.execute("UPDATE invoice SET region = NULL WHERE id = 5")


def test_a_number_that_the_server_gives_out_is_part_of_the_name(
    shell: Link, client: lockfast.Client
) -> None:
    """A BEFORE trigger would see 0, and one lock would open all new rows."""
    ((following,),) = run(
        shell,
        "SELECT AUTO_INCREMENT FROM information_schema.TABLES "
        "WHERE TABLE_SCHEMA = 'app' AND TABLE_NAME = 'invoice'",
    )
    insert = "INSERT INTO invoice (region, paid) VALUES ('eu', 0)"
    with pytest.raises(Unguarded), MysqlGuard(shell).transaction(lease(client, "inv:eu:0")) as cur:
        cur.execute(insert)
    held = lease(client, f"inv:eu:{following + 1}")  # the refused one took a number too
    with MysqlGuard(shell).transaction(held) as cursor:
        cursor.execute(insert)


def test_what_another_trigger_changes_is_part_of_the_name(
    shell: Link, client: lockfast.Client
) -> None:
    run(shell, "CREATE TRIGGER moved BEFORE UPDATE ON invoice FOR EACH ROW SET NEW.region = 'us'")
    with (
        pytest.raises(Unguarded, match="inv:us:1"),
        MysqlGuard(shell).transaction(lease(client, "inv:eu:1")) as cursor,
    ):
        cursor.execute("UPDATE invoice SET paid = 1 WHERE id = 1")


def test_deleting_a_row_does_not_reopen_the_door(shell: Link, client: lockfast.Client) -> None:
    stale, fresh = usurped(client, "inv:eu:5")
    with MysqlGuard(shell).transaction(fresh) as cursor:
        cursor.execute("DELETE FROM invoice WHERE id = 5")
    show(shell, stale)
    refused(shell, "INSERT INTO invoice VALUES (5, 'eu', 0)", "LF001")


KID = (
    "CREATE TABLE kid (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) REFERENCES register "
    "(id) {})"
)


@pytest.mark.parametrize(
    "rule", ["ON DELETE CASCADE", "ON DELETE SET NULL", "ON UPDATE CASCADE", "ON UPDATE SET NULL"]
)
def test_a_table_that_a_cascade_changes_is_not_protected(shell: Link, rule: str) -> None:
    """The server runs no trigger for the rows that a cascade changes."""
    run(shell, KID.format(rule))
    with pytest.raises(ValueError, match="by the foreign key kid_ibfk_1"):
        protect(shell, "kid", "kid")
    assert run(shell, "SHOW TRIGGERS LIKE 'kid'") == ()


def test_a_table_with_a_foreign_key_that_only_restricts_is_protected(
    shell: Link, client: lockfast.Client
) -> None:
    run(shell, KID.format("ON DELETE RESTRICT ON UPDATE NO ACTION"))
    protect(shell, "kid", "kid")
    refused(shell, "INSERT INTO kid VALUES (1, 1)")
    with MysqlGuard(shell).transaction(lease(client, "kid")) as cursor:
        cursor.execute("INSERT INTO kid VALUES (1, 1)")


def test_what_passes_the_trigger_is_what_the_page_says(
    mariadb: MariaDB, shell: Link, client: lockfast.Client
) -> None:
    run(shell, KID.format("ON DELETE RESTRICT"))
    run(shell, "INSERT INTO register (id, value) VALUES (77, '')")
    run(shell, "INSERT INTO kid VALUES (1, 77)")
    protect(shell, "kid", "kid")
    run(
        shell,
        "ALTER TABLE kid DROP FOREIGN KEY kid_ibfk_1, "
        "ADD FOREIGN KEY (parent) REFERENCES register (id) ON DELETE CASCADE",
    )
    run(shell, "DELETE FROM register WHERE id = 77")  # a cascade that was made later
    assert run(shell, "SELECT * FROM kid") == ()
    with pytest.raises(ValueError, match="foreign key"):
        protect(shell, "kid", "kid")  # which notices it
    run(shell, "ALTER TABLE watched MODIFY value VARCHAR(100) NOT NULL")
    run(shell, "TRUNCATE watched")
    held = lease(client, "inv:eu:3")
    MysqlGuard(shell).seal(held)
    ((token, ident),) = mariadb.command(
        "SELECT token, id FROM lockfast_guard.mark WHERE name = 'inv:eu:3'"
    )
    run(shell, SHOW, ["inv:eu:3", token, ident])  # a hostile session
    run(shell, "UPDATE invoice SET paid = 1 WHERE id = 3")


@pytest.mark.parametrize(
    ("table", "make", "name", "why"),
    [
        ("odd", "CREATE TABLE odd (id INT) ENGINE = MyISAM", "odd", "Only InnoDB"),
        ("odd", "CREATE VIEW odd AS SELECT * FROM watched", "odd", "not a table"),
        ("odd", "SELECT 1", "odd", "not a table"),
        ("odd", "CREATE TABLE odd (id INT) WITH SYSTEM VERSIONING", "odd", "not a table"),
        ("odd", "CREATE TABLE odd (id INT)", "odd:{nothing}", "columns of that table"),
        ("odd", "CREATE TABLE odd (id INT)", "odd:{id", "columns of that table"),
        ("odd", "CREATE TABLE odd (id INT)", "odd:id}", "columns of that table"),
        ("odd", "CREATE TABLE odd (id FLOAT)", "odd:{id}", "is a float"),
        ("odd", "CREATE TABLE odd (id TIMESTAMP)", "odd:{id}", "is a timestamp"),
        ("odd", "CREATE TABLE odd (id BINARY(16))", "odd:{id}", "is a binary"),
    ],
)
def test_a_table_that_cannot_be_guarded_is_refused(
    shell: Link, table: str, make: str, name: str, why: str
) -> None:
    run(shell, "DROP TABLE IF EXISTS odd")
    run(shell, "DROP VIEW IF EXISTS odd")
    run(shell, make)
    with pytest.raises(ValueError, match=why):
        protect(shell, table, name)
    run(shell, "DROP TABLE IF EXISTS odd")
    run(shell, "DROP VIEW IF EXISTS odd")


def test_protecting_again_changes_the_name_and_unprotecting_removes_only_ours(
    shell: Link, client: lockfast.Client
) -> None:
    run(shell, "CREATE TRIGGER mine AFTER INSERT ON watched FOR EACH ROW SET @mine = NEW.id")
    protect(shell, "watched", "renamed")
    assert len(run(shell, "SHOW TRIGGERS LIKE 'watched'")) == 4
    with MysqlGuard(shell).transaction(lease(client, "renamed")) as cursor:
        cursor.execute("INSERT INTO watched VALUES (8, 'x')")
    unprotect(shell, "watched")
    run(shell, "INSERT INTO watched VALUES (9, 'x')")
    assert run(shell, "SELECT @mine") == ((9,),)


def test_any_table_can_be_named(mariadb: MariaDB, shell: Link, client: lockfast.Client) -> None:
    odd = "o`d%s" + "x" * 59
    quoted = f"`{odd.replace('`', '``')}`"
    run(shell, f"CREATE OR REPLACE TABLE {quoted} (`i``d%s` INT)")
    protect(shell, odd, "odd:{i`d%s}")
    insert = f"INSERT INTO {quoted} VALUES (1)"  # noqa: S608  # ours
    refused(shell, insert)
    with MysqlGuard(shell).transaction(lease(client, "odd:1")) as cursor:
        cursor.execute(insert)
    unprotect(shell, odd)
    with mariadb.connect() as connection, pytest.raises(ValueError, match="no database"):
        protect(connection, "watched", "watched")
