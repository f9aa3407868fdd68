"""Settings of a session do not change what the procedures on MariaDB do.

Every user can set them, and a server can have them for all sessions.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pymysql
import pytest

import lockfast
from lockfast.engines import opener
from lockfast.engines.mysql import install, messages, procedures
from lockfast.port import SHARED, Ask, Kind, Shape, Standing
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.contract.test_mysql_rules import Database, ask, holds, instead, number_of, without
from tests.servers import MariaDB, wait_until

LOOK = procedures.parts()["LOOK"]


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        yield server


def locked(
    database: Database, connection: pymysql.connections.Connection[pymysql.cursors.Cursor]
) -> bool:
    """Return whether an open transaction of this connection has locked a table. The server may
    still be ending those of an earlier trial.
    """
    time.sleep(0.15)  # the server renews what it shows only if nobody reads it for 0.1 s
    which = f"trx_mysql_thread_id = {number_of(connection)} AND trx_tables_locked > 0"
    return bool(database.run(f"SELECT 1 FROM information_schema.INNODB_TRX WHERE {which}"))


def test_a_release_without_handlers_grants_no_lock_twice(server: MariaDB) -> None:
    """With max_error_count = 0 no handler for NOT FOUND runs: a claim that is gone would be deleted
    with the weight of the claim before it.
    """

    def trial(database: Database) -> bool:
        held, other, gone, next_ = ask("held"), ask("other"), ask("held"), ask("held")
        database.claim(held)
        database.claim(other)
        assert messages.bucket("other") != messages.bucket("held")
        database.run(messages.resign([other, gone], None), "SET max_error_count = 0")
        ((_, _, granted, *_),) = database.claim(next_)
        return granted == b"f"

    holds(server, trial, without("SET SESSION max_error_count = 64;"))


@pytest.mark.parametrize(
    "look",
    [messages.show_one("x"), messages.show_page("x", None), messages.ear("0" * 22, -1)],
    ids=["one", "page", "ear"],
)
def test_who_only_looks_keeps_nobody_waiting(server: MariaDB, look: bytes) -> None:
    def trial(database: Database) -> bool:
        mine = ask("x")
        database.claim(mine)
        with closing(database.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION tx_isolation = 'SERIALIZABLE', autocommit = 0")
            cursor.execute(look.decode())
            return not locked(database, connection)

    holds(server, trial, instead(LOOK, ""))


@pytest.mark.parametrize("setting", ["autocommit = 0", "tx_read_only = 1"])
def test_several_grants_are_told_in_transactions_of_their_own(
    server: MariaDB, setting: str
) -> None:
    """Without autocommit, the ears' rows stayed locked, and releases of other users failed. In a
    session that is read-only, the waiters were not told.
    """

    def reader_or_writer(weight: int) -> Ask:
        shape = Shape("a", 30.0, Kind.READ_WRITE, SHARED, weight)
        return Ask(secrets.token_hex(16), shape, queue=True, not_after=0.0, payload=b"")

    def trial(database: Database) -> bool:
        writer, *readers = (reader_or_writer(weight) for weight in (SHARED, 1, 1))
        for each in (writer, *readers):
            database.claim(each)
        with closing(database.connect()) as connection, connection.cursor() as cursor:
            cursor.execute(f"SET SESSION {setting}")
            cursor.execute(messages.resign([writer], None).decode())
            ((noted,),) = database.run("SELECT SUM(n) FROM lockfast_ear")
            return noted == len(readers) and not locked(database, connection)

    def mutate(sql: str) -> str:
        begun = "START TRANSACTION READ WRITE;\n    UPDATE lockfast_ear"
        sql = instead(begun, "UPDATE lockfast_ear")(sql)
        return instead("% 1024;\n    COMMIT AND NO CHAIN NO RELEASE;", "% 1024;")(sql)

    holds(server, trial, mutate)


def test_a_server_that_refuses_careless_statements_takes_batches(server: MariaDB) -> None:
    install(server.url)
    careless = {"sql_safe_updates": (1, 0), "sql_big_selects": (0, 1), "max_join_size": (1, 2**60)}
    engine = opener(parse(server.url), Threads())()
    asks = [
        Ask(secrets.token_hex(16), Shape(name, 30.0), queue=True, not_after=now() + 30, payload=b"")
        for name in "abc"
    ]
    try:
        for name, (careful, _) in careless.items():
            server.command(f"SET GLOBAL {name} = {careful}")
        granted = drive(engine.claim_all(asks, now() + 20))
        assert all(isinstance(each, Standing) and each.granted for each in granted)
        assert drive(engine.resign(asks, now() + 20, doubt=False)) == [True] * len(asks)
    finally:
        for name, (_, usual) in careless.items():
            server.command(f"SET GLOBAL {name} = {usual}")
        drive(engine.close())


def test_the_number_of_a_session_is_not_that_of_the_server(server: MariaDB) -> None:
    """Who may replay a binary log may set it. Each change would raise the tokens by an hour."""

    def trial(database: Database) -> bool:
        first, second = (
            int(database.claim(ask(name), before=f"SET server_id = {number}")[0][1])
            for name, number in (("a", 7), ("a", 8))
        )
        return second - first < 60_000_000

    holds(server, trial, instead("@@global.server_id", "@@server_id"))


@pytest.mark.parametrize(
    "mode",
    ["ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT", "ORACLE", "EMPTY_STRING_IS_NULL", ""],
)
def test_no_setting_of_a_server_changes_what_a_lock_does(mode: str) -> None:
    config = {
        "autocommit": "0",
        "innodb-flush-log-at-trx-commit": "0",
        "sql-mode": mode,
        "transaction-isolation": "SERIALIZABLE",
    }
    with MariaDB(config=config) as server:
        install(server.url)
        with lockfast.connect(server.url) as first, lockfast.connect(server.url) as second:
            names = [f'it\'s \\ a "name" {number}' for number in range(4)]
            every = first.lock_all(*names).acquire(timeout=20)
            with ThreadPoolExecutor() as pool:
                lock = second.lock(names[0])
                waiter = pool.submit(lock.acquire, timeout=30)
                wait_until(lambda: len(lock.queue()) == 1, "it waits")
                every.release()
                waiter.result().release()
