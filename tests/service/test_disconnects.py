"""Claims that end with the connection of their client: `on_disconnect`."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import lockfast
from lockfast import EngineRefused, NotAcquired, aio
from lockfast.engines.memory import Memory, MemoryEngine
from lockfast.errors import EngineUnavailable
from lockfast.port import Ask, Standing
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.service.wire import SILENCE
from tests.servers import Redis, Replica, wait_until
from tests.servers.proxy import Proxy
from tests.servers.service import Service
from tests.service.peers import Held
from tests.traps.holder import Holder
from tests.wide.behind import engine

D = 1.0
TTL = 60.0  # a lock that is free long before has not waited for it
SOON = 20.0
OPTION = f"?on_disconnect={D:g}"


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def url(redis: Redis) -> str:
    redis.command("FLUSHALL")
    return redis.url


@contextmanager
def replicas(url: str, count: int) -> Iterator[Sequence[Replica]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Replica(url)) for _ in range(count)]


def of(*replicas: Replica) -> str:
    return f"lockfast://{','.join(each.address for each in replicas)}{OPTION}"


def acquires(url: str, name: str = "x") -> float:
    """Acquire a lock, and return how long that took."""
    began = time.monotonic()
    with lockfast.connect(url) as client, client.lock(name, ttl=TTL, timeout=SOON):
        return time.monotonic() - began


@pytest.mark.parametrize("loop", [False, True], ids=["threads", "asyncio"])
def test_the_lock_of_a_process_that_is_killed_is_free_soon(url: str, *, loop: bool) -> None:
    with replicas(url, 1) as (replica,), Holder(of(replica), "x", TTL, aio=loop) as holder:
        holder.holds()
        holder.kill()
        acquires(url)


@pytest.mark.parametrize("loop", [False, True], ids=["threads", "asyncio"])
def test_it_is_free_soon_although_a_forked_child_lives(url: str, *, loop: bool) -> None:
    with replicas(url, 1) as (replica,), Holder(of(replica), "x", TTL, aio=loop) as holder:
        holder.holds()
        assert holder.ask("fork") == "forked"
        time.sleep(2 * D)
        assert holder.ask("ensure") == "held", "the child has closed its own copy only"
        holder.kill()
        assert acquires(url) < SILENCE


def test_it_is_free_soon_in_a_file(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/locks.db"
    with replicas(url, 1) as (replica,), Holder(of(replica), "x", TTL) as holder:
        holder.holds()
        holder.kill()
        acquires(url)


@pytest.mark.parametrize("name", ["postgres", "mysql"])
def test_it_is_free_soon_in_a_database(name: str) -> None:
    with (
        engine(name) as url,
        replicas(url, 1) as (replica,),
        Holder(of(replica), "x", TTL) as holder,
    ):
        holder.holds()
        holder.kill()
        acquires(url)


@pytest.mark.parametrize("name", ["etcd"])
def test_an_engine_behind_the_service_that_cannot_do_it_is_refused(name: str) -> None:
    with (
        engine(name) as url,
        replicas(url, 1) as (replica,),
        lockfast.connect(of(replica)) as client,
        pytest.raises(EngineRefused, match="its engine cannot do that"),
    ):
        client.lock("x").acquire()


def test_without_the_option_it_is_taken_until_its_ttl(url: str) -> None:
    with replicas(url, 1) as (replica,), Holder(replica.url, "x", TTL) as holder:
        holder.holds()
        holder.kill()
        with lockfast.connect(url) as client, pytest.raises(NotAcquired):
            client.lock("x", timeout=3 * D).acquire()


def test_what_at_least_keeps_outlives_its_process(url: str) -> None:
    with replicas(url, 1) as (replica,):
        with lockfast.connect(of(replica)) as client, client.lock("x", ttl=TTL, at_least=TTL / 2):
            pass
        with lockfast.connect(url) as client, pytest.raises(NotAcquired):
            client.lock("x", timeout=3 * D).acquire()


def test_a_waiter_that_is_killed_blocks_nobody(url: str) -> None:
    with replicas(url, 1) as (replica,), lockfast.connect(url) as client:
        with client.lock("x", ttl=TTL):
            with Holder(of(replica), "x", TTL) as waiter:
                wait_until(lambda: len(client.lock("x").queue()) == 2, "it waits", SOON)
                waiter.kill()
            # Without the option, it would block the queue for ten seconds.
            wait_until(lambda: len(client.lock("x").queue()) == 1, "it has left", 7.0)
        acquires(url)


def test_a_connection_that_is_cut_costs_no_lease(url: str) -> None:
    with replicas(url, 1) as (replica,), Proxy(replica.host, replica.port) as proxy:
        through = f"lockfast://{proxy.address}{OPTION}"
        with lockfast.connect(through) as client, client.lock("x", ttl=TTL) as lease:
            for _ in range(3):
                proxy.reset()
                time.sleep(2 * D)
                lease.ensure_held()
        assert acquires(url) < TTL / 2


def test_replicas_that_are_restarted_cost_no_lease(url: str) -> None:
    with replicas(url, 2) as pair, lockfast.connect(of(*pair)) as client:
        names = [f"name {number}" for number in range(20)]
        leases = [client.lock(name, ttl=TTL).acquire() for name in names]
        for replica in pair:
            replica.drain()
            replica.drained(SOON)
            replica.start(SOON)
            time.sleep(2 * D)
            for lease in leases:
                lease.ensure_held()
        for lease in leases:
            lease.release()


def test_a_paused_replica_does_not_remove_what_has_moved(url: str) -> None:
    with replicas(url, 2) as pair, lockfast.connect(of(*pair)) as client:
        lease = client.lock("x", ttl=TTL).acquire()
        token = lease.token
        for replica in pair:  # the client is at one of them
            replica.signal(signal.SIGSTOP)
            try:
                time.sleep(2.5 * D)
            finally:
                replica.signal(signal.SIGCONT)
            if lease.state.name == "LOST":  # it could not move within a second
                lease = client.lock("x", ttl=TTL).acquire()
                token = lease.token
            time.sleep(2 * D)
        lease.ensure_held()
        assert lease.token == token
        lease.release()


def test_an_event_loop_that_is_blocked_keeps_its_lease(url: str) -> None:
    """Its connection ends, since another one of the same client replaces it."""

    async def block(at: str) -> None:
        async with aio.connect(at) as client, client.lock("x", ttl=TTL) as lease:
            time.sleep(8.0)  # noqa: ASYNC251  # that is the test
            lease.ensure_held()
            await asyncio.sleep(4.0)
            lease.ensure_held()

    with replicas(url, 1) as (replica,):
        asyncio.run(block(f"{replica.url}?on_disconnect=3"))


class Counted(MemoryEngine):
    """An engine that counts renewals, and can refuse them or stop answering them."""

    renewals = 0
    down = silent = False

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        Counted.renewals += 1
        if Counted.silent:
            await asyncio.sleep(max(deadline - now(), 0.0))
            raise EngineUnavailable("silent", sent=True)
        if Counted.down:
            raise EngineUnavailable("down", sent=True)
        return await super().renew(asks, deadline)


def counted(runtime: Aio) -> MemoryEngine:
    Counted.renewals, Counted.down, Counted.silent = 0, False, False
    return Counted(Memory(), runtime.bell())


def test_the_engine_hears_of_few_renewals_and_may_stop_for_a_while() -> None:
    with Service(lambda runtime: lambda: counted(runtime)) as service:
        url = service.url + OPTION
        with lockfast.connect(url) as client, client.lock("x", ttl=6) as lease:
            time.sleep(3 * D)
            lease.ensure_held()
            first = Counted.renewals
            assert 1 <= first <= 4, "the client has sent about nine"
            Counted.down = True
            time.sleep(2 * D)
            lease.ensure_held()
            Counted.down = False
            time.sleep(3 * D)
            lease.ensure_held()
            assert Counted.renewals > first


def test_an_engine_that_is_down_for_longer_costs_the_lease_in_time() -> None:
    with Service(lambda runtime: lambda: counted(runtime)) as service:
        url = service.url + OPTION
        with lockfast.connect(url) as client:
            began = time.monotonic()
            lease = client.lock("x", ttl=4).acquire()
            Counted.down = True
            wait_until(lambda: lease.state.name == "LOST", "the lease is lost", SOON)
            assert time.monotonic() - began < 4.5
            Counted.down = False


def test_what_the_engine_is_asked_for_does_not_cost_other_leases_of_the_client() -> None:
    """Waiters, and a lease of a short ttl: the replica cannot answer about them by itself."""
    with Service(lambda runtime: lambda: counted(runtime)) as service, ExitStack() as stack:
        other = stack.enter_context(lockfast.connect(service.url))
        stack.enter_context(other.lock("taken", ttl=TTL))
        pool = stack.enter_context(ThreadPoolExecutor(4))
        client = stack.enter_context(lockfast.connect(f"{service.url}?on_disconnect=2"))
        lease = stack.enter_context(client.lock("x", ttl=TTL))
        short = client.lock("short", ttl=4).acquire()
        for _ in range(4):
            pool.submit(client.lock("taken", timeout=12, ttl=TTL).acquire)
        wait_until(lambda: len(other.lock("taken").queue()) == 5, "they wait", SOON)
        Counted.silent = True
        wait_until(lambda: short.state.name == "LOST", "the short lease is lost", SOON)
        until = now() + 4.0
        while now() < until:
            lease.ensure_held()
            time.sleep(0.1)
        Counted.silent = False


def test_an_engine_that_cannot_do_it_is_refused() -> None:
    with Service(lambda _: Held().made) as service:
        with lockfast.connect(service.url) as client, client.lock("x"):
            pass
        with (
            lockfast.connect(service.url + OPTION) as client,
            pytest.raises(EngineRefused, match="cannot release locks when a client disconnects"),
        ):
            client.lock("x").acquire()
