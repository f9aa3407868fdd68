"""The guard on MariaDB and the connections that it is given: wrapped ones, and odd cursors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncmy
import pymysql
import pytest
from pymysql.cursors import DictCursor, SSCursor, SSDictCursor
from sqlalchemy import create_engine

import lockfast
from lockfast import StaleToken, State, Unguarded
from lockfast.guards.mysql import MysqlGuard, install, protect, unprotect
from lockfast.guards.mysql.statements import number_of, refusal
from tests.guards.database import lease
from tests.guards.mariadb import usurped
from tests.guards.registers.mysql import UPDATE, Link, connect, run
from tests.guards.registers.sqlalchemy import url
from tests.servers import MariaDB


class Steady:
    """A connection that connects anew when the server has closed it, and sends again, as those of
    some pools do. It passes everything else on.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._own = connect(where)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # the driver's
        return getattr(self._own, name)

    def cursor(self) -> SteadyCursor:
        return SteadyCursor(self)

    def again(self) -> None:
        self._own = connect(self._where)


class SteadyCursor:
    def __init__(self, steady: Steady) -> None:
        self._steady = steady
        self._own = steady._own.cursor()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # the driver's
        return getattr(self._own, name)

    def execute(self, statement: str, values: object = None) -> object:
        try:
            return self._own.execute(statement, values)
        except pymysql.OperationalError:
            self._steady.again()
            self._own = self._steady._own.cursor()
            return self._own.execute(statement, values)


@contextmanager
def by_sqlalchemy(where: str) -> Iterator[Any]:
    engine = create_engine(url(where))
    with closing(engine.raw_connection()) as connection:
        yield connection
    engine.dispose()


@contextmanager
def steady(where: str) -> Iterator[Any]:
    with closing(Steady(where)) as connection:
        yield connection


Wrapper = Callable[[str], AbstractContextManager[Any]]


@pytest.mark.parametrize("wrapper", [by_sqlalchemy, steady])
def test_a_connection_that_is_wrapped_is_refused_because_its_statements_are_not_seen(
    mariadb: MariaDB, link: Link, client: lockfast.Client, wrapper: Wrapper
) -> None:
    """Else a COMMIT within the block, or another connection, let the stale holder write."""
    stale, fresh = usurped(client, wrapper.__name__)
    with wrapper(mariadb.url) as connection:
        guard = MysqlGuard(connection)
        with pytest.raises(TypeError, match="driver's own"):
            guard.seal(stale)
        with pytest.raises(TypeError, match="driver's own"), guard.transaction(stale) as cursor:
            cursor.execute("SELECT CONNECTION_ID()")
            if wrapper is steady:
                mariadb.command(f"KILL {cursor.fetchone()[0]}")
            else:
                cursor.execute("COMMIT")
            MysqlGuard(link).seal(fresh)
            cursor.execute(UPDATE, ["stale"])
            cursor.execute("COMMIT")
        assert run(link, "SELECT value FROM register WHERE id = 1") == (("none",),)
        MysqlGuard(link).seal(fresh)  # it has left no transaction open


def test_the_drivers_own_connection_of_a_pool_is_guarded(
    mariadb: MariaDB, link: Link, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "own")
    with by_sqlalchemy(mariadb.url) as connection:
        guard = MysqlGuard(connection.driver_connection)
        guard.seal(fresh)
        with guard.transaction(fresh) as cursor:
            cursor.execute(UPDATE, ["fresh"])
        with pytest.raises(StaleToken), guard.transaction(stale):
            pytest.fail("it was let in")
    assert run(link, "SELECT value FROM register WHERE id = 1") == (("fresh",),)


def test_a_connection_for_asyncio_does_not_seal_nothing_in_silence(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    async def play() -> None:
        where = urlsplit(mariadb.url)
        connection = await asyncmy.connect(
            host=where.hostname, port=where.port, user=where.username, password=where.password
        )
        with pytest.raises(TypeError, match="asyncio"):
            MysqlGuard(connection).seal(held)
        with pytest.raises(TypeError, match="asyncio"), MysqlGuard(connection).transaction(held):
            pytest.fail("it was let in")
        connection.close()

    with client.lock("nobody awaits") as held:
        asyncio.run(play())


@pytest.mark.parametrize("kind", [DictCursor, SSCursor, SSDictCursor])
def test_every_kind_of_cursor_may_be_the_connections(
    mariadb: MariaDB, client: lockfast.Client, kind: type[Any]
) -> None:
    with connect(mariadb.url, cursorclass=kind) as connection:
        run(connection, "SET sql_mode = 'ANSI', lock_wait_timeout = 77")
        install(connection)
        protect(connection, "watched", "cursors:{id}")
        guard = MysqlGuard(connection)
        with client.lock("cursors:1") as held:
            guard.seal(held)
            with guard.transaction(held) as cursor:
                cursor.execute("UPDATE watched SET value = 'x' WHERE id = 1")
        with pytest.raises(pymysql.Error, match="LF002"):
            run(connection, "UPDATE watched SET value = 'y'")
        unprotect(connection, "watched")
        run(connection, "UPDATE watched SET value = 'y'")
        assert mariadb.command("SELECT value FROM app.watched WHERE id = 1") == [("y",)]


@pytest.mark.parametrize(
    "error",
    [
        Exception(1644, "lockfast LF001: {}"),  # PyMySQL, mysqlclient, asyncmy, aiomysql
        Exception(1644, "1644 (LF001): lockfast LF001: {}", "LF001"),  # MySQL's own driver
        Exception("lockfast LF001: {}"),  # MariaDB's own driver
    ],
)
def test_a_refusal_is_read_from_the_error_of_every_driver(
    client: lockfast.Client, error: Exception
) -> None:
    held = lease(client, "drivers")
    said = f"the token is stale, the mark is at {held.token + 1}, refused {held.id}"
    error.args = tuple(each.format(said) if isinstance(each, str) else each for each in error.args)
    meant = refusal(error, [held])
    assert isinstance(meant, StaleToken)
    assert meant.current == held.token + 1
    assert held.state is State.LOST


def test_the_number_of_an_error_may_be_an_attribute() -> None:
    error = Exception("PROCEDURE lockfast_guard.seal_v1 does not exist")
    error.errno = 1305  # type: ignore[attr-defined]  # as MariaDB's own driver has it
    assert number_of(error) == 1305
    assert isinstance(refusal(error, []), Unguarded)
