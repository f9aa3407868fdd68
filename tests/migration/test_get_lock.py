"""The page on GET_LOCK says of MariaDB what a real server does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, closing
from threading import Thread
from typing import TypeAlias

import pymysql
import pytest
from pymysql.connections import Connection
from pymysql.cursors import Cursor

import lockfast
from lockfast.engines.mysql import install
from tests.migration.page import PAGES
from tests.servers import MariaDB, wait_until

Session: TypeAlias = "Connection[Cursor]"

WAITERS = "SELECT 1 FROM information_schema.processlist WHERE state = 'User lock'"
SQL = re.compile(r"^```sql\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def ask(session: Session, sql: str) -> object:
    """Return the value that a statement selects."""
    with session.cursor() as cursor:
        cursor.execute(sql)
        row = cursor.fetchone()
    return None if row is None else row[0]


def ident(session: Session) -> object:
    """Return the server's number of a session."""
    return ask(session, "SELECT CONNECTION_ID()")


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB() as server:
        install(server.url)
        yield server


@pytest.fixture
def sessions(server: MariaDB) -> Iterator[tuple[Session, Session]]:
    with closing(server.connect()) as one, closing(server.connect()) as other:
        yield one, other


def test_a_busy_lock_is_a_result_and_no_error(sessions: tuple[Session, Session]) -> None:
    one, other = sessions
    assert ask(one, "SELECT GET_LOCK('invoices', 0)") == 1
    assert ask(other, "SELECT GET_LOCK('invoices', 0)") == 0
    assert ask(other, "SELECT GET_LOCK('free', -1)") is None
    late = "SET STATEMENT max_statement_time = 0.1 FOR SELECT GET_LOCK('invoices', 9)"
    assert ask(other, late) is None
    assert ask(other, "SELECT RELEASE_LOCK('invoices')") == 0
    assert ask(other, "SELECT RELEASE_LOCK('unknown')") is None


def test_the_next_user_of_a_pooled_connection_does_not_wait(
    sessions: tuple[Session, Session],
) -> None:
    pooled, other = sessions
    for _ in range(2):  # a request that forgot to release, and the next one
        assert ask(pooled, "SELECT GET_LOCK('invoices', 0)") == 1
    ask(pooled, "SELECT RELEASE_LOCK('invoices')")
    assert ask(other, "SELECT GET_LOCK('invoices', 0)") == 0
    assert ask(pooled, "SELECT GET_LOCK('of other code', 0)") == 1
    assert ask(pooled, "SELECT RELEASE_ALL_LOCKS()") == 2
    assert ask(other, "SELECT GET_LOCK('of other code', 0)") == 1


@pytest.mark.parametrize("end", ["COMMIT", "ROLLBACK"])
def test_the_end_of_a_transaction_keeps_the_lock(
    sessions: tuple[Session, Session], end: str
) -> None:
    one, other = sessions
    one.begin()
    ask(one, "SELECT GET_LOCK('invoices', 0)")
    ask(one, end)
    assert ask(other, "SELECT GET_LOCK('invoices', 0)") == 0


def test_an_idle_session_loses_the_lock_before_its_process_notices(
    sessions: tuple[Session, Session],
) -> None:
    one, other = sessions
    ask(one, "SELECT GET_LOCK('invoices', 0)")
    ask(one, "SET wait_timeout = 1")
    assert ask(other, "SELECT GET_LOCK('invoices', 30)") == 1
    with pytest.raises(pymysql.OperationalError):
        ask(one, "SELECT 1")


def test_a_session_that_connects_again_by_itself_never_notices(
    sessions: tuple[Session, Session],
) -> None:
    one, other = sessions
    ask(one, "SELECT GET_LOCK('invoices', 0)")
    ask(other, f"KILL {ident(one)}")
    assert ask(other, "SELECT GET_LOCK('invoices', 30)") == 1
    with pytest.warns(DeprecationWarning, match="reconnect"):
        one.ping(reconnect=True)  # as pools and frameworks do
    assert ask(one, "SELECT 1") == 1


def test_a_restart_frees_the_lock_and_keeps_that_of_lockfast(server: MariaDB) -> None:
    with lockfast.connect(server.url) as client, closing(server.connect()) as one:
        lease = client.lock("invoices", ttl=60).acquire()
        ask(one, "SELECT GET_LOCK('invoices', 0)")
        server.restart()
        with closing(server.connect()) as other:
            assert ask(other, "SELECT GET_LOCK('invoices', 0)") == 1
        with lockfast.connect(server.url) as second:
            assert second.lock("invoices").try_acquire() is None
        lease.release()


def test_a_replica_does_not_know_the_lock() -> None:
    log = {"log-bin": "log"}
    with ExitStack() as stack:
        primary, replica = (stack.enter_context(MariaDB(config=log)) for _ in range(2))
        replica.follow(primary)
        one, other = (stack.enter_context(closing(each.connect())) for each in (primary, replica))
        assert ask(one, "SELECT GET_LOCK('invoices', 0)") == 1
        primary.command("CREATE DATABASE later")
        replica.caught_up(primary)
        assert ask(other, "SELECT GET_LOCK('invoices', 0)") == 1


def test_names_have_192_bytes_and_belong_to_the_server(sessions: tuple[Session, Session]) -> None:
    one, other = sessions
    assert ask(one, "SELECT GET_LOCK(REPEAT('é', 96), 0)") == 1
    for long in ("REPEAT('é', 97)", "REPEAT('x', 193)"):
        with pytest.raises(pymysql.OperationalError, match="too long"):
            ask(one, f"SELECT GET_LOCK({long}, 0)")
    ask(one, "SELECT GET_LOCK('invoices', 0)")
    ask(other, "USE mysql")
    assert ask(other, "SELECT GET_LOCK('invoices', 0)") == 0


def test_a_deadlock_is_an_error(server: MariaDB, sessions: tuple[Session, Session]) -> None:
    one, other = sessions
    ask(one, "SELECT GET_LOCK('a', 0)")
    ask(other, "SELECT GET_LOCK('b', 0)")
    waiting = Thread(target=ask, args=(one, "SELECT GET_LOCK('b', 60)"))
    waiting.start()
    wait_until(lambda: len(server.command(WAITERS)) == 1, "one waits for the other", 30)
    with pytest.raises(pymysql.OperationalError, match="1213"):
        ask(other, "SELECT GET_LOCK('a', 60)")
    ask(other, "SELECT RELEASE_ALL_LOCKS()")
    waiting.join()


def test_lockfasts_waiter_hears_although_the_application_releases_all_its_locks(
    server: MariaDB, sessions: tuple[Session, Session]
) -> None:
    with lockfast.connect(server.url) as one, lockfast.connect(server.url) as other:
        lease = one.lock("invoices").acquire()
        tokens: list[int] = []

        def wait() -> None:
            with other.lock("invoices", timeout=60) as next_lease:
                tokens.append(next_lease.token)

        waiting = Thread(target=wait)
        waiting.start()
        wait_until(lambda: len(one.lock("invoices").queue()) == 2, "another waits", 30)
        assert ask(sessions[0], "SELECT RELEASE_ALL_LOCKS()") == 0
        lease.release()
        waiting.join()
        assert tokens > [lease.token]


def test_the_query_of_the_page_shows_who_holds_the_lock_and_who_waits(
    server: MariaDB, sessions: tuple[Session, Session]
) -> None:
    (sql,) = SQL.findall((PAGES / "get-lock.md").read_text("utf-8"))
    one, other = sessions
    both = {ident(one), ident(other)}
    ask(one, "SELECT GET_LOCK('invoices', 0)")
    waiting = Thread(target=ask, args=(other, "SELECT GET_LOCK('invoices', 60)"))
    waiting.start()
    wait_until(lambda: {row[0] for row in server.command(sql)} == both, "both are listed", 30)
    ask(one, "SELECT RELEASE_LOCK('invoices')")
    waiting.join()
