"""Clients of a MariaDB that gives them no further connection."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import lockfast
from lockfast import EngineUnavailable
from lockfast.engines.mysql import install
from lockfast.engines.mysql.threads import ThreadTransport
from lockfast.engines.mysql.url import Address
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.servers import MariaDB, wait_until

ACCOUNT = "app", "tests"


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    """A server on which the user `app` may have one connection."""
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        account = "app@'%' IDENTIFIED BY 'tests'"
        server.command(f"CREATE USER {account} WITH MAX_USER_CONNECTIONS 1")
        install(server.url, role="app")
        yield server


def ends(server: MariaDB) -> int:
    """Tell when the claim ends."""
    ((micros,),) = server.command("SELECT expires FROM lockfast.lockfast_claim")
    return int(micros)


def waits(server: MariaDB) -> bool:
    """Tell whether a claim waits."""
    return bool(server.command("SELECT 1 FROM lockfast.lockfast_claim WHERE waits = 1"))


def test_a_renewal_that_gets_no_connection_borrows_one(server: MariaDB) -> None:
    with lockfast.connect(server.address(*ACCOUNT)) as client:
        with client.lock("x", ttl=6).acquire(timeout=5):
            first = ends(server)
            wait_until(lambda: ends(server) > first, "the lease was renewed")
        client.lock("x").acquire(timeout=5).release()


def test_a_waiter_that_gets_no_connection_learns_of_its_grant(server: MariaDB) -> None:
    with lockfast.connect(server.address(*ACCOUNT)) as client:
        first = client.lock("x", ttl=30).acquire(timeout=5)
        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(client.lock("x", ttl=30).acquire, timeout=20)
            wait_until(lambda: waits(server), "it waits")
            first.release()
            second.result(20).release()


def test_the_next_connection_that_is_free_is_for_renewals(server: MariaDB) -> None:
    runtime = Threads()
    address = Address.of(parse(server.address(*ACCOUNT)))
    transport = ThreadTransport(address, runtime.bell(), runtime.turns(2), runtime.now)
    answer = "SELECT GET_LOCK('busy', 20)"
    with server.connect() as other, ThreadPoolExecutor(1) as pool, other.cursor() as cursor:
        cursor.execute(answer)
        busy = pool.submit(lambda: drive(transport.call(answer.encode(), now() + 30, len)))
        wait_until(lambda: used(server), "the connection is in use")
        with pytest.raises(EngineUnavailable, match="max_user_connections"):
            drive(transport.call(b"SELECT 1", now() + 5, len, heart=True))
        cursor.execute("SELECT RELEASE_LOCK('busy')")
        assert busy.result(20) == 1
        with pytest.raises(EngineUnavailable, match="max_user_connections"):
            drive(transport.call(b"SELECT 1", now() + 5, len))
        assert drive(transport.call(b"SELECT 1", now() + 5, len, heart=True)) == 1
        assert drive(transport.call(b"SELECT 1", now() + 5, len)) == 1
    drive(transport.close())


def used(server: MariaDB) -> bool:
    """Tell whether the user's connection runs a query."""
    state = "SELECT 1 FROM information_schema.PROCESSLIST WHERE USER = 'app' AND COMMAND = 'Query'"
    return bool(server.command(state))
