"""Databases that keep locks as rows, and what a test asks of each in its own SQL."""

from __future__ import annotations

import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from typing import Any

from lockfast.engines import mysql, postgres
from lockfast.engines.mysql import messages, procedures
from tests.servers import MariaDB, Postgres, ServerClock, wait_until
from tests.traps.ports import Port


class Database(ABC):
    """A server with lockfast's tables, and a clock that a test moves."""

    url: str
    rounds: int
    """Of two claimants at once: enough for an engine without the rule to grant twice."""

    def __init__(self, clock: ServerClock) -> None:
        self.clock = clock

    def port(self) -> Port:
        return Port(self.url)

    def neighbours(self) -> tuple[str, str]:
        """Return two names of one bucket."""
        first = "job 0"
        names = (f"job {number}" for number in count(1))
        return first, next(name for name in names if self._bucket(name) == self._bucket(first))

    def wait_blocked(self, most: int) -> None:
        """Wait until so many requests wait for a lock inside the server."""
        wait_until(lambda: self._blocked() == most, f"{most} wait for a lock")

    def rows(self, table: str) -> int:
        """Count the rows of a table of lockfast."""
        return int(self._value(f"SELECT count(*) FROM {self._table(table)}"))  # noqa: S608  # ours

    def buckets(self) -> int:
        """Count the buckets that have claims."""
        return int(self._value(f"SELECT count(DISTINCT b) FROM {self._table('claim')}"))  # noqa: S608

    def tombstone_left(self) -> float:
        """Return for how many seconds the only tombstone stays."""
        table = self._table("tombstone")
        return int(self._value(f"SELECT until - {self._micros} FROM {table}")) / 1e6  # noqa: S608

    def wipe(self) -> None:
        """Delete all claims and tombstones."""
        for table in ("claim", "tombstone"):
            self._run(f"DELETE FROM {self._table(table)}")  # noqa: S608  # of this list

    _micros: str

    @abstractmethod
    def _table(self, name: str) -> str: ...
    @abstractmethod
    def _bucket(self, name: str) -> object: ...
    @abstractmethod
    def _blocked(self) -> int: ...
    @abstractmethod
    def _run(self, sql: str) -> list[tuple[Any, ...]]: ...
    @abstractmethod
    def default(self, level: str) -> None:
        """Set the level in which the server runs transactions that do not name one."""

    @abstractmethod
    def held(self, name: str) -> Any:  # noqa: ANN401  # a context manager
        """Hold the bucket of a name in a transaction."""

    def _value(self, sql: str) -> Any:  # noqa: ANN401  # whatever it selects
        ((value,),) = self._run(sql)
        return value


class PostgresDatabase(Database):
    """PostgreSQL."""

    rounds = 2000
    _micros = "lockfast.micros_v1()"

    def __init__(self, server: Postgres, clock: ServerClock) -> None:
        super().__init__(clock)
        self._server, self.url = server, server.url
        postgres.install(self.url)

    def _table(self, name: str) -> str:
        return f"lockfast.{name}"

    def _bucket(self, name: str) -> object:
        return hashlib.sha256(name.encode()).digest()[:2]

    def _run(self, sql: str) -> list[tuple[Any, ...]]:
        return self._server.command(sql)

    def _blocked(self) -> int:
        waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        return int(self._value(waits))

    def default(self, level: str) -> None:
        self._run(f"ALTER SYSTEM SET default_transaction_isolation = '{level}'")
        self._run("SELECT pg_reload_conf()")
        shown = "SHOW default_transaction_isolation"
        wait_until(lambda: self._value(shown) == level, f"the default is {level}")

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        with self._server.connect() as connection:
            connection.execute("BEGIN")
            connection.execute(
                "SELECT FROM lockfast.bucket "
                "WHERE b = lockfast.bucket_v1(convert_to(%s, 'UTF8')) FOR UPDATE",
                [name],
            )
            yield
            connection.execute("COMMIT")


class MariadbDatabase(Database):
    """MariaDB."""

    rounds = 300
    _micros = procedures.NOW

    def __init__(self, server: MariaDB, clock: ServerClock) -> None:
        super().__init__(clock)
        self._server, self.url = server, server.url
        mysql.install(self.url)

    def _table(self, name: str) -> str:
        return f"lockfast.lockfast_{name}"

    def _bucket(self, name: str) -> object:
        return messages.bucket(name)

    def _run(self, sql: str) -> list[tuple[Any, ...]]:
        return self._server.command(sql)

    def _blocked(self) -> int:
        time.sleep(0.15)  # the server renews this table only if nobody reads it for 0.1 s
        waits = "SELECT count(*) FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
        return int(self._value(waits))

    def default(self, level: str) -> None:
        self._run(f"SET GLOBAL TRANSACTION ISOLATION LEVEL {level}")

    @contextmanager
    def held(self, name: str) -> Iterator[None]:
        with closing(self._server.connect()) as connection, connection.cursor() as cursor:
            connection.begin()
            cursor.execute(
                "SELECT * FROM lockfast.lockfast_bucket WHERE b = %s FOR UPDATE",
                [messages.bucket(name)],
            )
            yield
            connection.commit()
