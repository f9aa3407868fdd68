"""What the tests of guards share: servers for a module, and a client that needs none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import lockfast
from tests.guards.database import database
from tests.guards.mariadb import mariadb as started
from tests.guards.registers.mysql import Link, connect
from tests.servers import MariaDB, ObjectStore, Postgres, Redis


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    """A PostgreSQL with the guard and the registers of the story."""
    with database() as server:
        yield server


@pytest.fixture
def client() -> Iterator[lockfast.Client]:
    with lockfast.connect("memory://") as client:
        yield client


@pytest.fixture
def connection(server: Postgres) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with psycopg.connect(server.url) as connection:
        connection.execute("UPDATE register SET value = 'none', fence_token = 0, fence_id = ''")
        connection.commit()
        yield connection


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDB]:
    """A MariaDB with the guard and the registers of the story."""
    with started({"local-infile": "1"}) as server:
        yield server


@pytest.fixture
def link(mariadb: MariaDB) -> Iterator[Link]:
    """A connection to MariaDB in autocommit, with its register as it was."""
    with connect(mariadb.url) as connection:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE register SET value = 'none', fence_token = 0, fence_id = ''")
        yield connection


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectStore]:
    """One object store for all tests of its guard: it takes seconds to start."""
    with ObjectStore() as server:
        yield server
