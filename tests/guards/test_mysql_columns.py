"""The column form on MariaDB: the mark in the row itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pymysql
import pytest
from pymysql.constants import CLIENT
from pymysql.cursors import Cursor, DictCursor

import lockfast
from lockfast import StaleToken, State, Unguarded
from lockfast.guards.mark import Mark, Shown, admit
from lockfast.guards.mysql import Columns, Expression
from tests.guards.holders import readers, writer
from tests.guards.mariadb import usurped
from tests.guards.registers.mysql import connect
from tests.servers import MariaDB


@pytest.fixture(params=["changed", "found", "dict"])
def cursor(mariadb: MariaDB, request: pytest.FixtureRequest) -> Iterator[Cursor]:
    """A cursor that counts the rows it changed, or those it found, or gives its rows as dicts."""
    flag = {"client_flag": CLIENT.FOUND_ROWS} if request.param == "found" else {}
    kind = {"cursorclass": DictCursor} if request.param == "dict" else {}
    with (
        connect(mariadb.url, autocommit=False, **flag, **kind) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("UPDATE register SET value = 'none', fence_token = 0, fence_id = ''")
        connection.commit()
        yield cursor


def only(cursor: Cursor, statement: str) -> object:
    cursor.execute(statement)
    row: Any = cursor.fetchone()
    return next(iter(row.values())) if isinstance(row, dict) else row[0]


def test_columns_of_the_row_keep_the_same_rule(cursor: Cursor, client: lockfast.Client) -> None:
    columns = Columns()
    stale, fresh = usurped(client, "columns")
    where = ("app.register", {"id": 1})
    columns.seal(cursor, fresh, *where)
    columns.seal(cursor, fresh, *where)  # nothing changes: the driver counts no row
    for _ in range(2):
        columns.update(cursor, fresh, *where, {"value": "fresh"})
    with pytest.raises(StaleToken) as caught:
        columns.update(cursor, stale, *where, {"value": "stale"})
    assert caught.value.current == fresh.token
    assert stale.state is State.LOST
    assert only(cursor, "SELECT value FROM register") == "fresh"
    with pytest.raises(LookupError, match="nothing to guard"):
        columns.update(cursor, fresh, "register", {"id": 2}, {"value": "x"})
    own = "UPDATE register SET value = %(new)s, {} WHERE id = 1 AND {}"
    own = own.format(columns.set, columns.where)
    cursor.execute(own, {"new": "own", **columns.shown(fresh)})
    assert cursor.rowcount == 1
    cursor.execute(own, {"new": "never", **columns.shown(stale)})
    assert cursor.rowcount == 0


def test_two_equal_tokens_of_two_claims_do_not_both_write(
    cursor: Cursor, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "columns, split")
    fresh.claim.ticket = stale.claim.ticket
    Columns().seal(cursor, fresh, "register", {"id": 1})
    for values in ({}, {"value": "none"}, {"value": "stale"}):
        with pytest.raises(StaleToken):
            Columns().update(cursor, stale, "register", {"id": 1}, values)


@pytest.mark.parametrize("id_type", ["VARBINARY(32)", "VARCHAR(32)"])
def test_the_rule_is_that_of_every_guard(cursor: Cursor, id_type: str) -> None:
    ids = ("a" * 32, "A" * 32)
    cursor.execute(
        "CREATE TEMPORARY TABLE ruled (id INT PRIMARY KEY, fence_token BIGINT NOT NULL, "
        f"fence_id {id_type} NOT NULL)"
    )
    cursor.execute("INSERT INTO ruled VALUES (1, 0, '')")
    for token in (1, 2, 3):
        for at in (
            *(writer(2, ident) for ident in ids),
            *(readers(2, floor) for floor in (0, 1, 2)),
            *(readers(3, floor) for floor in (1, 3)),
        ):
            for mark in (Mark(token, ids[0]), Mark(token, "")):
                cursor.execute("UPDATE ruled SET fence_token = %s, fence_id = %s", [*mark])
                try:
                    wanted = admit(mark, at)
                except StaleToken:
                    with pytest.raises(StaleToken):
                        Columns().seal(cursor, at, "ruled", {"id": 1})
                    wanted = mark
                else:
                    Columns().seal(cursor, at, "ruled", {"id": 1})
                assert only(cursor, "SELECT fence_token FROM ruled") == wanted.token
                kept = only(cursor, "SELECT fence_id FROM ruled")
                assert (kept.decode() if isinstance(kept, bytes) else kept) == wanted.id


def test_a_value_may_be_an_expression(mariadb: MariaDB, client: lockfast.Client) -> None:
    columns = Columns("tok%en", "i`d")
    with connect(mariadb.url) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE OR REPLACE TABLE account (id INT PRIMARY KEY, balance INT)")
        cursor.execute("INSERT INTO account VALUES (1, 5)")
        cursor.execute(columns.add_to("account"))
        _, fresh = usurped(client, "expression")
        for _ in range(2):
            less = {"balance": Expression("balance - 1")}
            columns.update(cursor, fresh, "account", {"id": 1}, less)
        assert only(cursor, "SELECT balance FROM account") == 3
        with pytest.raises(pymysql.Error, match="Duplicate column"):
            cursor.execute(columns.add_to("account"))


def test_a_key_of_several_rows_changes_none_of_them(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    """Also in autocommit, where a count before the UPDATE would be a race."""
    columns = Columns()
    with connect(mariadb.url) as connection, connection.cursor() as cursor:
        cursor.execute(
            "CREATE OR REPLACE TABLE part (id INT, order_id INT, state VARCHAR(9) DEFAULT 'new')"
        )
        cursor.execute("INSERT INTO part (id, order_id) VALUES (1, 7), (2, 7)")
        cursor.execute(columns.add_to("part"))
        stale, fresh = usurped(client, "several")
        columns.update(cursor, fresh, "part", {"id": 1}, {"state": "sent"})
        for lease in (stale, fresh):
            with pytest.raises(LookupError, match=r"2 rows of part have .* nothing was changed"):
                columns.update(cursor, lease, "part", {"order_id": 7}, {"state": "late"})
        cursor.execute("SELECT state FROM part ORDER BY id")
        assert cursor.fetchall() == (("sent",), ("new",))


def test_an_old_snapshot_does_not_admit_a_stale_holder(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    """The UPDATE changes no row, and a plain read of the snapshot still has its own mark."""
    columns, where = Columns(), ("register", {"id": 1})
    stale, fresh = usurped(client, "snapshot")
    with connect(mariadb.url) as new, connect(mariadb.url, autocommit=False) as old:
        with new.cursor() as cursor:
            cursor.execute("UPDATE register SET value = 'none', fence_token = 0, fence_id = ''")
            columns.seal(cursor, stale, *where)
        with old.cursor() as late, new.cursor() as cursor:
            assert only(late, "SELECT fence_token FROM register") == stale.token
            columns.seal(cursor, fresh, *where)
            with pytest.raises(StaleToken):
                columns.update(late, stale, *where, {"value": "none"})
            assert only(late, "SELECT fence_token FROM register") == stale.token  # the snapshot
            old.rollback()


def test_a_row_that_is_made_again_has_forgotten_its_columns(
    cursor: Cursor, client: lockfast.Client
) -> None:
    columns = Columns()
    stale, fresh = usurped(client, "forgotten")
    columns.seal(cursor, fresh, "register", {"id": 1})
    cursor.execute("DELETE FROM register")
    cursor.execute("INSERT INTO register (id, value) VALUES (1, 'anew')")
    columns.update(cursor, stale, "register", {"id": 1}, {"value": "stale"})  # the page says so


@pytest.mark.parametrize("kind", ["INT", "DECIMAL(10)"])
def test_a_column_that_cuts_the_token_is_noticed(cursor: Cursor, kind: str) -> None:
    """Without strict mode, the server stores what fits. The row would accept every stale holder."""
    cursor.execute("SET sql_mode = ''")
    cursor.execute(
        f"CREATE OR REPLACE TABLE narrow (id INT PRIMARY KEY, note VARCHAR(3), fence_token {kind} "
        "NOT NULL DEFAULT 0, fence_id VARBINARY(32) NOT NULL DEFAULT '')"
    )
    cursor.execute("INSERT INTO narrow (id) VALUES (1)")
    at = Shown("narrow", 1763160000123456, "a" * 32, 1763160000123456, shared=False)
    with pytest.raises(Unguarded, match="BIGINT"):
        Columns().seal(cursor, at, "narrow", {"id": 1})
    cursor.execute("ALTER TABLE narrow MODIFY fence_token BIGINT NOT NULL")
    # A warning about another column is not the guard's.
    Columns().update(cursor, at, "narrow", {"id": 1}, {"note": "too long"})
    Columns().update(cursor, at, "narrow", {"id": 1}, {"id": 2, "note": "also too long"})
    assert only(cursor, "SELECT fence_token FROM narrow WHERE id = 2") == at.token
