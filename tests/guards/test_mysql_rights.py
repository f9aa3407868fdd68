"""What a writer under the guard can do to the marks of others: raise them, no more."""

from __future__ import annotations

from collections.abc import Iterator

import pymysql
import pytest

import lockfast
from lockfast import StaleToken, Unguarded
from lockfast.guards.mysql import MysqlGuard, install, protect
from tests.guards.database import lease
from tests.guards.mariadb import mariadb as started
from tests.guards.mariadb import usurped
from tests.guards.registers.mysql import Link, connect, run
from tests.servers import MariaDB

LOGIN = {"user": "app", "password": "app"}


@pytest.fixture
def app(mariadb: MariaDB) -> Iterator[Link]:
    """A connection of a user that may write to the tables, and through the guard."""
    for each in ("app", "other"):
        mariadb.command(f"CREATE OR REPLACE USER {each}@'127.0.0.%' IDENTIFIED BY 'app'")
        mariadb.command(f"GRANT SELECT, INSERT, UPDATE, DELETE ON app.* TO {each}@'127.0.0.%'")
    with connect(mariadb.url) as root:
        install(root, user="app@127.0.0.%")
        protect(root, "watched", "watched")
    with connect(mariadb.url, **LOGIN) as connection:
        yield connection


def test_an_installation_creates_no_user(mariadb: MariaDB) -> None:
    # MariaDB's GRANT did, without a password and from every host, for a name that was misspelt.
    said = "there is no user 'mispelt' for the host '%': CREATE USER first"
    with connect(mariadb.url) as root, pytest.raises(Unguarded, match=said):
        install(root, user="mispelt")
    assert mariadb.command("SELECT 1 FROM mysql.user WHERE user = 'mispelt'") == []


def test_a_writer_needs_no_right_to_the_marks(app: Link, client: lockfast.Client) -> None:
    guard = MysqlGuard(app)
    stale, fresh = usurped(client, "watched")
    guard.seal(stale)
    with guard.transaction(stale) as cursor:
        cursor.execute("UPDATE watched SET value = 'app'")
    with pytest.raises(Unguarded), guard.transaction(lease(client, "register")) as cursor:
        cursor.execute("UPDATE watched SET value = 'app'")
    guard.seal(fresh)
    with pytest.raises(StaleToken), guard.transaction(stale):
        pytest.fail("it was let in")
    run(
        app,
        "SET @lockfast_name = 'watched', @lockfast_token = %s, @lockfast_id = %s",
        [fresh.token, fresh.id],
    )
    run(app, "UPDATE watched SET value = 'shown'")


def test_a_user_without_a_right_to_the_guard_writes_under_the_trigger_only_with_a_token(
    mariadb: MariaDB, app: Link, client: lockfast.Client
) -> None:
    assert app.open
    held = lease(client, "watched")
    with connect(mariadb.url, **{**LOGIN, "user": "other"}) as connection:
        with pytest.raises(pymysql.Error, match="denied"):
            MysqlGuard(connection).seal(held)
        with pytest.raises(pymysql.Error, match="LF002"):
            run(connection, "UPDATE watched SET value = 'x'")
        show = "SET @lockfast_name = 'watched', @lockfast_token = %s, @lockfast_id = %s"
        run(connection, show, [held.token, held.id])
        run(connection, "UPDATE watched SET value = 'x'")


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM lockfast_guard.mark",
        "UPDATE lockfast_guard.mark SET token = 1",
        "DELETE FROM lockfast_guard.mark",
        "TRUNCATE lockfast_guard.mark",
        "INSERT INTO lockfast_guard.mark VALUES ('x', 1, '', 1)",
        "REPLACE INTO lockfast_guard.mark VALUES ('x', 1, '', 1)",
        "DROP PROCEDURE lockfast_guard.admit_v1",
        "CREATE PROCEDURE lockfast_guard.mine() DO 0",
        "TRUNCATE watched",
        "ALTER TABLE watched ADD COLUMN more INT",
    ],
)
def test_a_writer_cannot_lower_a_mark_or_go_round_the_trigger(app: Link, statement: str) -> None:
    with pytest.raises(pymysql.Error, match="denied"):
        run(app, statement)


def test_no_procedure_lowers_a_mark(mariadb: MariaDB, app: Link, client: lockfast.Client) -> None:
    stale, fresh = usurped(client, "lower")
    MysqlGuard(app).seal(fresh)
    packed = f"{b'lower'.hex()} {stale.token} {stale.id} {stale.token} 0;"
    for call in (
        f"admit_v1('lower', {stale.token}, '{stale.id}', {stale.token}, 0, 0)",
        f"admit_v1('lower', {stale.token}, '{stale.id}', 0, 1, 0)",
        f"each_v1('{packed}', 0)",
        f"raise_v1('{packed}', 9)",
        f"seal_v1('{packed}', 9)",
        f"begin_v1('{packed}', 9)",
        f"enter_v1('{packed}', 9, 0)",
        f"enter_v1('{packed}', 9, 1)",
    ):
        with pytest.raises(pymysql.Error, match="LF001"):
            run(app, f"CALL lockfast_guard.{call}")
    mark = mariadb.command("SELECT token, id FROM lockfast_guard.mark WHERE name = 'lower'")
    assert mark == [(fresh.token, fresh.id.encode())]


@pytest.mark.parametrize("form", ["ROW", "MIXED", "STATEMENT"])
def test_the_marks_are_replicated_with_the_data(client: lockfast.Client, form: str) -> None:
    """A replica that is promoted refuses whom its primary has refused."""
    config = {"log-bin": "log", "binlog-format": form}
    with started(config) as primary, MariaDB(config=config) as replica:
        replica.follow(primary)
        with connect(primary.url) as connection:
            protect(connection, "watched", "watched")
            stale, fresh = usurped(client, "watched")
            guard = MysqlGuard(connection)
            with guard.transaction(stale) as cursor:
                cursor.execute("UPDATE watched SET value = 'stale, in time'")
            guard.seal(fresh)
            with pytest.raises(StaleToken), guard.transaction(stale):
                pytest.fail("it was let in")
            with guard.transaction(fresh) as cursor:
                cursor.execute("UPDATE watched SET value = CONCAT(value, ', fresh')")
        replica.caught_up(primary)
        assert replica.command("SELECT value FROM app.watched") == [("stale, in time, fresh",)]
        replica.promote()
        with connect(replica.url) as connection:
            MysqlGuard(connection).seal(fresh)
            show = "SET @lockfast_name = 'watched', @lockfast_token = %s, @lockfast_id = %s"
            run(connection, show, [stale.token, stale.id])
            with pytest.raises(pymysql.Error, match="LF001"):
                run(connection, "UPDATE watched SET value = 'stale'")
