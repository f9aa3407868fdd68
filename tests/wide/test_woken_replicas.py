"""A replica stands still with requests in its buffers, and its clients move to another one. When it
goes on, the requests acquire nothing and extend nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest

import lockfast
from lockfast.port import LONGEST_WAIT, TOMB_MARGIN
from tests.servers import Proxy, Replica, wait_until
from tests.wide.behind import ENGINES, engine

_TTL = 30.0  # what comes to life lives for longer than the test
_PATIENCE = 30.0
_STATES = {"01", "08"}  # in the kernel's table: established, and closed by the other side
_LISTS = 50  # looks at whether something lives


class Pair:
    """Two replicas, each behind a proxy, and a client of both."""

    def __init__(self, engine: str) -> None:
        self.replicas = [Replica(engine), Replica(engine)]
        self.proxies = [Proxy("127.0.0.1", replica.port) for replica in self.replicas]
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        for replica in self.replicas:
            self._stack.enter_context(replica)
        for proxy in self.proxies:
            self._stack.enter_context(proxy)
        return self

    def __exit__(self, *_error: object) -> None:
        for replica in self.replicas:
            if replica.alive:
                replica.resume()
        self._stack.close()

    @property
    def url(self) -> str:
        return f"lockfast://{','.join(proxy.address for proxy in self.proxies)}"

    def used(self) -> int:
        """Tell which replica the only client is connected to."""
        wait_until(lambda: sum(p.open_connections for p in self.proxies) == 1, "one connection")
        return [proxy.open_connections for proxy in self.proxies].index(1)


@pytest.fixture(scope="module", params=ENGINES)
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    with engine(request.param) as url:
        yield url


@pytest.fixture
def pair(url: str) -> Iterator[Pair]:
    with Pair(url) as started:
        yield started


def _unread(replica: Replica) -> int:
    """Tell how many bytes lie in the buffers of its connections."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]]
    return sum(
        int(row[4].partition(":")[2], 16)
        for row in rows
        if row[3] in _STATES and int(row[1].partition(":")[2], 16) == replica.port
    )


@pytest.mark.parametrize("case", ["hung-up", "parted", "long-parted"])
def test_what_lies_in_the_buffers_of_a_paused_replica_gives_life_to_nothing(
    pair: Pair, case: str
) -> None:
    """If it was parted from its client, the replica never learns that the connection was closed. If
    that is long ago, the tombstones have ended, and the requests are too late.
    """
    with lockfast.connect(pair.url) as client:
        held = client.lock("held", ttl=2.0).acquire(timeout=10)  # renewed once or twice a second
        old = pair.used()
        replica, other = pair.replicas[old], pair.replicas[1 - old]
        replica.pause()
        wait_until(lambda: _unread(replica) > 0, "a renewal lies in the buffers", _PATIENCE)
        renewal = _unread(replica)
        leases: list[lockfast.Lease] = []
        asking = threading.Thread(
            target=lambda: leases.append(client.lock("asked", ttl=_TTL).acquire(timeout=20))
        )
        asking.start()
        if case != "hung-up":
            wait_until(lambda: _unread(replica) > renewal, "a claim lies there too", _PATIENCE)
            pair.proxies[old].cut()
        asking.join(_PATIENCE)
        assert leases, "the client did not move"
        leases[0].release()
        with contextlib.suppress(lockfast.LeaseLost):
            held.release()
        if case == "long-parted":
            time.sleep(LONGEST_WAIT + 3 * TOMB_MARGIN)
        with lockfast.connect(other.url) as watcher:
            assert _unread(replica) > renewal
            assert not _living(watcher)
            replica.resume()
            wait_until(lambda: _unread(replica) == 0, "it has read everything", _PATIENCE)
            with lockfast.connect(replica.url) as late:  # it has a turn for each client
                late.lock("turn", ttl=_TTL).acquire(timeout=20).release()
            for _ in range(_LISTS):
                assert not _living(watcher)
                with watcher.lock("turn", ttl=_TTL, timeout=20):
                    pass
            with watcher.lock("asked", ttl=_TTL, timeout=0.0) as lease:
                assert lease.token > leases[0].token
    pair.proxies[old].heal()


def _living(client: lockfast.Client) -> list[str]:
    """Tell who holds one of the locks, or waits for it."""
    locks = [client.lock(name, ttl=_TTL) for name in ("held", "asked")]
    return [str(claim) for lock in locks for claim in (*lock.holders(), *lock.queue())]
