"""Two MariaDB servers that are primary in turn."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import lockfast
from lockfast.engines.mysql import install
from tests.servers import MariaDB

NAMES = [f"name {number}" for number in range(20)]
LOGGED = {
    "log-bin": "log",
    "log-slave-updates": "1",
    "innodb-flush-log-at-trx-commit": "2",
}


@pytest.fixture
def pair() -> Iterator[tuple[MariaDB, MariaDB]]:
    """A primary, and a replica that follows it."""
    with MariaDB(config=LOGGED) as first, MariaDB(config=LOGGED | {"read-only": "1"}) as second:
        install(first.url)
        second.follow(first, timeout=60)
        yield first, second


def url(*servers: MariaDB) -> str:
    places = ",".join(f"{server.host}:{server.port}" for server in servers)
    return servers[0].url.replace(f"{servers[0].host}:{servers[0].port}", places)


def tokens(client: lockfast.Client) -> dict[str, int]:
    """Acquire and release each lock, and give the tokens."""
    found = {}
    for name in NAMES:
        with client.lock(name, ttl=30).acquire(timeout=20) as lease:
            found[name] = lease.token
    return found


def switch(old: MariaDB, new: MariaDB) -> None:
    """Make the replica the primary, and the primary its replica."""
    old.command("SET GLOBAL read_only = 1")
    new.caught_up(old, timeout=60)
    new.promote()
    old.follow(new, position="current_pos", timeout=60)


def test_a_primary_that_was_a_replica_for_a_while_goes_on(pair: tuple[MariaDB, MariaDB]) -> None:
    with lockfast.connect(url(*pair)) as client, lockfast.connect(url(*pair)) as other:
        last = tokens(client)
        with client.lock("held", ttl=60).acquire(timeout=20) as lease:
            for old, new in (pair, pair[::-1], pair, pair[::-1]):
                switch(old, new)
                later = tokens(client)
                assert all(later[name] > last[name] for name in NAMES)
                last = later
                assert other.lock("held").try_acquire() is None
                lease.ensure_held()
        other.lock("held").acquire(timeout=20).release()


def test_a_primary_that_has_missed_another_one_gives_lower_tokens(
    pair: tuple[MariaDB, MariaDB],
) -> None:
    """As the page says: it must become a replica first."""
    first, second = pair
    with lockfast.connect(url(*pair)) as client:
        tokens(client)
        second.caught_up(first, timeout=60)
        first.kill()
        second.promote()
        last = tokens(client)
        second.kill()
        first.start()
        assert all(token < last[name] for name, token in tokens(client).items())
