"""What the tests of the guard for MariaDB share: a database with the guard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from lockfast.guards.mysql import install
from tests.guards import database
from tests.guards.registers.mysql import TABLES, connect
from tests.servers import MariaDB

usurped = partial(database.usurped, ttl=300.0)
"""Two leases of which the first does not learn of its loss within a test."""


@contextmanager
def mariadb(config: Mapping[str, str] | None = None) -> Iterator[MariaDB]:
    """Start a MariaDB with the guard's schema and, in the database `app`, the registers.

    Its log is not flushed: no test is about a power cut.
    """
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0", **(config or {})}) as server:
        server.command("CREATE DATABASE app")
        with connect(server.url) as connection:
            install(connection)
            with connection.cursor() as cursor:
                for each in TABLES:
                    cursor.execute(each)
        yield server
