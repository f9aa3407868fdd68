"""Traps 36 to 38: a server that is full, a cluster's slots, and waiting without polling."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest

import lockfast
from lockfast import EngineRefused, LeaseLost, Loss, NotAcquired, State
from tests.servers import Cluster, Redis, wait_until
from tests.traps.holder import Holder
from tests.traps.modes import Client, Lease
from tests.traps.waiting import SOON, in_background, wait_queue

Connect = Callable[[str], Client]

# --- 36: a full server evicts locks ---------------------------------------------------------------


@pytest.fixture
def full() -> Iterator[Redis]:
    """A server that a test fills with `maxmemory`: one byte is always exceeded."""
    with Redis() as server:
        yield server


def test_trap_36_a_full_server_refuses_and_the_body_does_not_run(
    either: Connect, full: Redis
) -> None:
    client = either(full.url)
    client.lock("before").acquire().release()
    full.command("CONFIG", "SET", "maxmemory", 1)
    for ask in (client.lock("x").acquire, client.lock("x").try_acquire):
        with pytest.raises(EngineRefused, match=r"OOM .*raise maxmemory"):
            ask()
    assert client.lock("x").queue() == []
    full.command("CONFIG", "SET", "maxmemory", 0)
    client.lock("x").acquire(timeout=5).release()


def test_trap_36_who_holds_a_lock_keeps_it_on_a_full_server(either: Connect, full: Redis) -> None:
    client = either(full.url)
    lease = client.lock("x", ttl=0.6).acquire()
    full.command("CONFIG", "SET", "maxmemory", 1)
    assert not lease.wait_lost(1.4)
    assert lease.state is State.HELD
    lease.release()
    assert client.lock("x").queue() == []


def test_trap_36_who_holds_a_lock_that_others_wait_for_keeps_it_on_a_full_server(
    either: Connect, full: Redis
) -> None:
    client = either(full.url)
    lease = client.lock("x", ttl=0.6).acquire()
    waiter = in_background(lambda: client.lock("x").acquire(timeout=20))
    wait_queue(client.lock("x"), 2)
    full.command("CONFIG", "SET", "maxmemory", 1)
    assert not lease.wait_lost(1.4)
    lease.release()
    waiter.result(SOON).release()


def test_trap_36_the_holder_of_an_evicted_lock_is_told(either: Connect, full: Redis) -> None:
    lease = either(full.url).lock("x", ttl=1.5).acquire()
    full.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    full.command("CONFIG", "SET", "maxmemory", 1)
    wait_until(lambda: full.command("DBSIZE") == 0, "all is evicted")
    assert int(full.info("stats")["evicted_keys"]) > 0
    assert lease.wait_lost(SOON)
    assert (lease.state, lease.loss) == (State.LOST, Loss.GONE)
    with pytest.raises(LeaseLost):
        lease.ensure_held()


def test_trap_36_a_queue_whose_parts_were_evicted_starts_anew(
    server: Redis, client: lockfast.Client
) -> None:
    lease = client.lock("x", ttl=1.5).acquire()
    waiter = in_background(lambda: client.lock("x", ttl=1.5).acquire(timeout=10))
    wait_queue(client.lock("x"), 2)
    found = server.command("KEYS", "lockfast:{*}#x")
    assert isinstance(found, list)
    (records,) = found
    assert isinstance(records, bytes)
    server.command("DEL", records)
    assert lease.wait_lost(SOON)
    assert lease.loss is Loss.GONE
    successor = waiter.result(SOON)
    assert [each.id for each in client.lock("x").queue()] == [successor.id]
    successor.release()


# --- 37: the keys of one lock in two slots --------------------------------------------------------


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as cluster:
        yield cluster


HOSTILE = ["plain", "a{b}c", "{}", "}{", "{", "}", "{1}", "{x}{y}", "a{}b{c}", "lockfast:{7}=x"]
HOSTILE += ["*?[x]^-\\", "NUL\0 and\r\nline", "ключ{й}", "\N{LOCK}"]


def _every_key(cluster: Cluster) -> list[bytes]:
    found: list[bytes] = []
    for node in cluster.nodes:
        keys = node.command("KEYS", "*")
        assert isinstance(keys, list)
        found += [key for key in keys if isinstance(key, bytes)]
    return found


def test_trap_37_all_keys_of_a_lock_are_in_one_slot_whatever_its_name(
    either: Connect, cluster: Cluster
) -> None:
    client, other = either(cluster.url), either(cluster.url)
    for name in HOSTILE:
        for node in cluster.nodes:
            node.command("FLUSHALL")
        lease = client.lock(name).acquire(timeout=5)
        with pytest.raises(NotAcquired):
            other.lock(name).acquire(timeout=0.02)  # its resignation leaves a tombstone
        waiter = in_background(lambda name=name: other.lock(name).acquire(timeout=10))  # type: ignore[misc]  # mypy infers no lambda with a default
        wait_queue(client.lock(name), 2)
        found = _every_key(cluster)
        assert len(found) >= 4, (name, found)  # the lock, its queue's two parts, the counter
        assert len({cluster.slot_of(key) for key in found}) == 1, (name, found)
        lease.release()
        successor = waiter.result(SOON)
        assert successor.token > lease.token
        successor.release()


# --- 38: polling, and queue jumping ---------------------------------------------------------------


def _requests(server: Redis) -> int:
    """Count the scripts that clients asked for: all that they do when nobody inspects."""
    stats = server.info("commandstats")
    said = [stats.get(f"cmdstat_{command}", "calls=0,") for command in ("eval", "evalsha")]
    return sum(int(each.partition("=")[2].partition(",")[0]) for each in said)


def test_trap_38_fifty_waiters_do_not_poll_and_are_served_in_order(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    lease: Lease = client.lock("x").acquire()
    clients = [either(server.url) for _ in range(5)]
    waiters: list[Future[Lease]] = []
    for number in range(50):
        lock = clients[number % 5].lock("x")
        waiters.append(in_background(lambda lock=lock: lock.acquire(timeout=60)))  # type: ignore[misc]  # mypy infers no lambda with a default
        wait_queue(client.lock("x"), number + 2)
    before = _requests(server)
    time.sleep(3.0)
    # A heartbeat of each at most; to poll every 100 ms would be 1,500 requests.
    assert _requests(server) - before <= 51
    for position, waiter in enumerate(waiters):
        assert not any(each.done() for each in waiters[position:])
        token = lease.token
        lease.release()
        lease = waiter.result(SOON)
        assert lease.token > token
    lease.release()


def test_trap_38_a_newcomer_does_not_jump_the_queue(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    newcomer = either(server.url).lock("x")
    for _ in range(20):
        lease = client.lock("x").acquire()
        waiter = in_background(lambda: client.lock("x").acquire(timeout=10))
        wait_queue(client.lock("x"), 2)
        late = in_background(lambda: newcomer.acquire(timeout=10))
        wait_queue(client.lock("x"), 3)
        lease.release()
        assert newcomer.try_acquire() is None
        first = waiter.result(SOON)
        assert not late.done()
        assert newcomer.try_acquire() is None
        first.release()
        last = late.result(SOON)
        assert lease.token < first.token < last.token
        last.release()


def test_trap_38_a_newcomer_does_not_jump_the_queue_when_the_holder_dies(
    either: Connect, server: Redis, client: lockfast.Client, hold: Callable[..., Holder]
) -> None:
    newcomer = either(server.url).lock("x")
    holder = hold("x", 1.0)
    dead = holder.holds()
    waiter = in_background(lambda: client.lock("x").acquire(timeout=10))
    wait_queue(client.lock("x"), 2)
    holder.kill()
    began = time.monotonic()
    while not waiter.done() and time.monotonic() < began + 5.0:
        assert newcomer.try_acquire() is None
    lease = waiter.result(0)
    assert lease.token > dead
    assert newcomer.try_acquire() is None
    lease.release()
