"""The column form: the mark in the row itself."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
from psycopg.sql import SQL

import lockfast
from lockfast import StaleToken, State
from lockfast.guards.postgres import (
    AsyncColumns,
    Columns,
)
from tests.guards.database import usurped
from tests.guards.registers.postgres import (
    SELECT,
)
from tests.servers import Postgres

Connection = psycopg.Connection[tuple[Any, ...]]


def value(server: Postgres) -> str:
    return str(server.command(SELECT)[0][0])


def test_columns_of_the_row_keep_the_same_rule(
    connection: Connection, client: lockfast.Client
) -> None:
    columns, where = Columns(), ("register", {"id": 1})
    cursor = connection.cursor()
    connection.execute("CREATE TEMP TABLE account (id int PRIMARY KEY, balance int DEFAULT 5)")
    connection.execute("INSERT INTO account VALUES (1)")
    connection.execute(columns.add_to("account"))
    stale, fresh = usurped(client, "columns")
    for _ in range(2):
        less = {"balance": SQL("balance - 1")}
        columns.update(cursor, fresh, "account", {"id": 1}, less)
    assert cursor.execute("SELECT balance FROM account").fetchone() == (3,)
    with pytest.raises(StaleToken) as caught:
        columns.update(cursor, stale, "account", {"id": 1}, {"balance": 0})
    assert caught.value.current == fresh.token
    assert stale.state is State.LOST
    with pytest.raises(LookupError, match="nothing to guard"):
        columns.update(cursor, fresh, "account", {"id": 2}, {"balance": 0})
    own = SQL("UPDATE register SET value = %(new)s, {} WHERE id = 1 AND {}")
    query = own.format(columns.set, columns.where)
    cursor.execute(query, {"new": "own", **columns.shown(fresh)})
    assert cursor.rowcount == 1
    cursor.execute(query, {"new": "never", **columns.shown(stale)})
    assert cursor.rowcount == 0
    columns.seal(cursor, fresh, *where)


def test_a_key_of_several_rows_changes_none_of_them(
    connection: Connection, client: lockfast.Client
) -> None:
    """One was changed, the other refused as stale, and nobody was told."""
    columns, cursor = Columns(), connection.cursor()
    cursor.execute("CREATE TEMP TABLE part (id int, order_id int, state text DEFAULT 'new')")
    cursor.execute("INSERT INTO part VALUES (1, 7), (2, 7)")
    cursor.execute(columns.add_to("part"))
    stale, fresh = usurped(client, "several")
    columns.update(cursor, fresh, "part", {"id": 1}, {"state": "sent"})
    for lease in (stale, fresh):
        with pytest.raises(LookupError, match=r"2 rows of part have .* nothing was changed"):
            columns.update(cursor, lease, "part", {"order_id": 7}, {"state": "late"})
    states = cursor.execute("SELECT state FROM part ORDER BY id").fetchall()
    assert states == [("sent",), ("new",)]


def test_a_row_that_is_made_again_has_forgotten_its_columns(
    connection: Connection, client: lockfast.Client
) -> None:
    columns, cursor = Columns(), connection.cursor()
    stale, fresh = usurped(client, "forgotten")
    columns.seal(cursor, fresh, "register", {"id": 1})
    cursor.execute("DELETE FROM register")
    cursor.execute("INSERT INTO register VALUES (1, 'anew')")
    columns.update(cursor, stale, "register", {"id": 1}, {"value": "stale"})  # the page says so


def test_columns_in_asyncio(server: Postgres, client: lockfast.Client) -> None:
    async def play() -> None:
        async with await psycopg.AsyncConnection.connect(server.url) as connection:
            columns, cursor = AsyncColumns(), connection.cursor()
            stale, fresh = usurped(client, "columns in asyncio")
            await cursor.execute("UPDATE register SET fence_token = 0, fence_id = ''")
            await columns.seal(cursor, fresh, "register", {"id": 1})
            await columns.update(cursor, fresh, "register", {"id": 1}, {"value": "columns"})
            with pytest.raises(StaleToken):
                await columns.update(cursor, stale, "register", {"id": 1}, {"value": "never"})

    asyncio.run(play())
    assert value(server) == "columns"
