"""Traps 23 to 25 and 27: a token comes with its grant, never resets, and never piles up."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

import lockfast
from lockfast import State
from tests.servers import Proxy, Redis, SentinelSet, ServerClock, wait_until
from tests.traps.holder import Holder
from tests.traps.modes import Client
from tests.traps.waiting import take_soon, wait_queue
from tests.traps.wire import is_claim, via

Connect = Callable[[str], Client]
HOUR = 3600.0
CONNECTION = (b"SUBSCRIBE", b"PING", b"HELLO")  # what keeps a connection, at any time
COUNTER = re.compile(rb"lockfast:\{\d+\}")


def keys(server: Redis) -> list[bytes]:
    """Tell all keys of a server."""
    found = server.command("KEYS", "*")
    assert isinstance(found, list)
    return [key for key in found if isinstance(key, bytes)]


def token(client: Client, name: str = "x") -> int:
    """Take a lock and give it back: what token did that give?"""
    lease = client.lock(name).acquire(timeout=10)
    lease.release()
    return lease.token


# --- 23: the token is minted in a second step after the grant -------------------------------------


def test_trap_23_the_grant_and_its_token_are_one_request(
    either: Connect, server: Redis, stack: ExitStack
) -> None:
    recorder = stack.enter_context(Proxy(server.host, server.port, record=True))
    client = either(via(recorder))
    first = token(client)
    before = len(recorder.requests)
    lease = client.lock("x").acquire()
    asked = [r for r in recorder.requests[before:] if not any(word in r for word in CONNECTION)]
    assert asked
    assert all(is_claim(request) for request in asked)  # more than one: a machine that stood still
    assert lease.token > first


@pytest.mark.parametrize("aio", [False, True], ids=["threads", "asyncio"])
def test_trap_23_a_holder_paused_right_after_its_grant_has_the_lower_token(
    proxy: Proxy, client: lockfast.Client, hold: Callable[..., Holder], *, aio: bool
) -> None:
    proxy.delay(0.0, replies=0.3)
    holder = hold("x", 2.0, url=via(proxy), aio=aio)  # its third reply is that of the claim
    wait_queue(client.lock("x"), 1, within=10.0)  # granted, and its reply is on the way
    holder.pause()
    stale = client.lock("x").queue()[0].ticket
    successor = take_soon(client.lock("x"), within=10.0)
    assert successor.token > stale
    proxy.heal()
    holder.resume()
    successor.release()
    # It finds that its time is over before it believes in the grant: it fails, or asks again.
    word, _, number = holder.line().partition(" ")
    assert word == "" or int(number) > successor.token


# --- 24: the token resets with the lock's key, or with the server ---------------------------------


@pytest.fixture
def clock() -> ServerClock:
    return ServerClock()


@pytest.fixture
def timed(clock: ServerClock) -> Iterator[Redis]:
    """A server whose clock the test moves."""
    with Redis(env=clock.env) as server:
        yield server


def _expiry(server: Redis, clock: ServerClock) -> None:
    (lock,) = [key for key in keys(server) if b"}=" in key]
    clock.advance(120.0)
    wait_until(lambda: server.command("EXISTS", lock) == 0, "the lock has expired")


FAULTS: dict[str, Callable[[Redis, ServerClock], object]] = {
    "nothing": lambda _server, _clock: None,
    "the expiry of its key": _expiry,
    "FLUSHALL": lambda server, _clock: server.command("FLUSHALL"),
    "a restart with nothing saved": lambda server, _clock: server.restart(keep_data=False),
    "a restart with all saved": lambda server, _clock: server.restart(keep_data=True),
    "a clock that went back": lambda _server, clock: clock.advance(-HOUR),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_trap_24_a_token_does_not_reset_after(
    fault: str, timed: Redis, clock: ServerClock, connect: Callable[[str], lockfast.Client]
) -> None:
    client = connect(timed.url)
    first = token(client)
    lease = client.lock("x", ttl=60).acquire(timeout=5)
    assert lease.token > first
    if fault != "the expiry of its key":
        lease.release()
    FAULTS[fault](timed, clock)
    assert token(connect(timed.url)) > lease.token
    assert token(client) > lease.token


def test_trap_24_a_clock_that_once_ran_ahead_does_not_turn_tokens_back(
    timed: Redis, clock: ServerClock, connect: Callable[[str], lockfast.Client]
) -> None:
    clock.advance(HOUR)
    ahead = token(connect(timed.url))
    clock.advance(-HOUR)
    assert token(connect(timed.url)) == ahead + 1
    assert token(connect(timed.url)) == ahead + 2


def test_trap_24_order_breaks_if_the_counter_is_lost_and_the_clock_is_behind(
    timed: Redis, clock: ServerClock, connect: Callable[[str], lockfast.Client]
) -> None:
    """The limit that the documentation admits, and the way out that it names."""
    first = token(connect(timed.url))
    clock.advance(-HOUR)
    timed.command("FLUSHALL")
    assert token(connect(timed.url)) < first
    lifted = connect(f"{timed.url}?token_base={int(2 * HOUR * 1e6)}")
    assert token(lifted) > first


# --- 25: one counter for each name ever locked ----------------------------------------------------


def test_trap_25_five_thousand_names_leave_a_bounded_number_of_counters(
    server: Redis, client: lockfast.Client
) -> None:
    for number in range(5000):
        with client.lock(f"invoice:{number}"):
            pass
    left = keys(server)
    assert 0 < len(left) <= 1024
    assert [key for key in left if not COUNTER.fullmatch(key)] == []
    for number in range(5000, 5100):
        with client.lock(f"invoice:{number}"):
            pass
    assert len(keys(server)) <= 1024


# --- 27: the counter is lost in a failover --------------------------------------------------------


def test_trap_27_a_failover_to_a_stale_replica_does_not_turn_tokens_back() -> None:
    with SentinelSet() as servers, lockfast.connect(servers.url) as client:
        seen = [token(client)]
        servers.wait_in_step()
        servers.cut_replica()
        seen += [token(client) for _ in range(5)]
        lease = client.lock("x", ttl=3).acquire()  # the replica never hears of this
        servers.wait_failover(servers.kill_primary())
        with lockfast.connect(servers.url) as other:
            after = token(other)
        assert after > lease.token > max(seen)
        assert lease.wait_lost(10)
        assert lease.state is State.LOST
        assert token(client) > after
