"""What the tests of the SQL guards share: a database with the guard, and leases gone stale."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import lockfast
from lockfast.blocking.client import Lease, Lock
from lockfast.guards.postgres import install
from lockfast.port import SHARED, Kind, Shape
from lockfast.runtime.drive import drive
from tests.guards.registers.postgres import TABLES
from tests.servers import Postgres


@contextmanager
def database() -> Iterator[Postgres]:
    """Start a PostgreSQL with the guard's schema and the registers of the story.

    Without fsync: no test is about a power cut, and 20,000 commits of the hammer take a fifth of
    the time.
    """
    with Postgres(config={"fsync": "off"}) as server:
        install(server.url)
        server.command(TABLES)
        yield server


def lease(client: lockfast.Client, name: str, ttl: float = 30.0) -> Lease:
    """Take a lock that is free."""
    return client.lock(name, ttl=ttl).acquire(timeout=5)


def usurped(client: lockfast.Client, name: str, ttl: float = 30.0) -> tuple[Lease, Lease]:
    """Give two leases on one name: the first does not know yet that the second has its place.

    It learns it in a third of the ttl.
    """
    first = lease(client, name, ttl)
    dismissed(client, first)
    return first, lease(client, name, ttl)


def dismissed(client: lockfast.Client, held: Lease) -> None:
    """Break a lease at the engine, as an operator does; its holder learns it in a third of the ttl.

    A new claim is renewed for the first time after three seconds at most, whatever its ttl, because
    it may have to wait. A slow test would take longer than that.
    """
    session = client._session
    with session.table._lock:
        session.table._keep(held.claim, session.runtime.now())
    drive(session.engine.resign([held.claim.ask], session.runtime.now() + 5, doubt=False))


def shared(client: lockfast.Client, name: str, capacity: int = SHARED, weight: int = 1) -> Lease:
    """Take a reader's lease, or a permit."""
    kind = Kind.READ_WRITE if capacity == SHARED else Kind.SEMAPHORE
    shape = Shape(name, 30.0, kind, capacity, weight)
    return Lock(client._session, Lease, shape, 5.0, "").acquire()
