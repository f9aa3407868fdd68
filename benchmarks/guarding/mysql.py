"""On MariaDB: a guarded transaction against the bare one of the same connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import lockfast
from benchmarks.rounds import Work
from lockfast.guards.mysql import MysqlGuard, install
from tests.servers import MariaDB

ROWS = 1_000
UPDATE = "UPDATE app.account SET balance = balance + %s WHERE id = %s"


@contextmanager
def writes() -> Iterator[dict[str, Work]]:
    """Give both ways to write, by name: on one server, with one connection."""
    with (
        MariaDB() as server,
        lockfast.connect("memory://") as client,
        client.lock("account:7", ttl=600) as lease,
        server.connect() as connection,
        connection.cursor() as own,
    ):
        install(connection)
        own.execute("CREATE DATABASE app")
        own.execute("CREATE TABLE app.account (id INT PRIMARY KEY, balance BIGINT)")
        own.executemany("INSERT INTO app.account VALUES (%s, 0)", [(n,) for n in range(ROWS)])
        guard = MysqlGuard(connection)
        guard.seal(lease)

        def bare(count: int) -> None:
            for _ in range(count):
                connection.begin()
                own.execute(UPDATE, [1, 7])
                connection.commit()

        def guarded(count: int) -> None:
            for _ in range(count):
                with guard.transaction(lease) as cursor:
                    cursor.execute(UPDATE, [1, 7])

        yield {"bare": bare, "guarded": guarded}
