"""Traps 43, 44, 47 and 51 to 53: those that our own design had before it was built."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

import lockfast
from lockfast import EngineError, EngineRefused, Loss, NotAcquired, State
from tests.servers import Proxy, Redis, ServerClock, wait_until
from tests.traps.holder import Holder
from tests.traps.modes import Client
from tests.traps.waiting import SOON, in_background, take_soon, wait_queue
from tests.traps.wire import is_claim, is_renewal, via

Connect = Callable[[str], Client]
Hold = Callable[..., Holder]
HOUR = 3600.0
_ROOT = Path(__file__).parents[2]


def keys(server: Redis, pattern: str) -> list[bytes]:
    """Tell the keys of a server that match."""
    found = server.command("KEYS", pattern)
    assert isinstance(found, list)
    return [key for key in found if isinstance(key, bytes)]


# --- 43: validity is assumed to be the whole ttl --------------------------------------------------


def test_trap_43_a_retried_claim_has_only_what_is_left(
    either: Connect, proxy: Proxy, client: lockfast.Client
) -> None:
    mine = either(via(proxy))
    mine.lock("warm").acquire().release()
    sent: list[float] = []

    def lost(request: bytes) -> bool:
        if not is_claim(request):
            return False
        sent.append(time.monotonic())
        return sent[-1] < sent[0] + 0.8

    proxy.hold_requests(is_renewal)
    proxy.lose_reply_matching(lost, None)
    lease = mine.lock("x", ttl=2.0).acquire(timeout=5)
    before = time.monotonic()
    remaining = lease.remaining
    left = client.lock("x").queue()[0].left
    assert len(sent) > 1
    assert 0.0 < remaining < 1.25
    assert remaining <= left + (time.monotonic() - before) + 0.002


def test_trap_43_a_promoted_waiter_has_only_its_wait_ttl_until_it_renews(
    either: Connect, server: Redis, proxy: Proxy, client: lockfast.Client
) -> None:
    first = client.lock("x").acquire()
    mine = either(via(proxy))
    mine.lock("warm").acquire().release()
    # Both listen: a waiter that begins to listen later looks for itself, by a renewal.
    wait_until(lambda: len(channels(server)) == 2, "subscribed", SOON)
    proxy.hold_requests(is_renewal)
    waiter = in_background(lambda: mine.lock("x", ttl=30.0).acquire(timeout=20))
    wait_queue(client.lock("x"), 2)
    first.release()
    lease = waiter.result(SOON)
    assert 5.0 < lease.remaining <= 10.0
    before = time.monotonic()
    remaining = lease.remaining
    assert remaining <= client.lock("x").queue()[0].left + (time.monotonic() - before) + 0.002
    proxy.release_requests()
    wait_until(lambda: lease.remaining > 20.0, "renewed to its whole ttl", SOON)
    lease.release()


def channels(server: Redis) -> Sequence[object]:
    """List the channels that somebody listens to."""
    found = server.command("PUBSUB", "CHANNELS")
    assert isinstance(found, list)
    return found


# --- 44: expiry is a filter instead of a deletion -------------------------------------------------


@pytest.fixture
def clock() -> ServerClock:
    return ServerClock()


@pytest.fixture
def timed(clock: ServerClock) -> Iterator[Redis]:
    """A server whose clock the test moves."""
    with Redis(env=clock.env) as server:
        yield server


def test_trap_44_an_expired_holder_does_not_come_back_with_the_clock(
    either: Connect, timed: Redis, clock: ServerClock
) -> None:
    lock = either(timed.url).lock("x", ttl=3.0)
    old = lock.acquire()
    clock.advance(4.0)
    new = take_soon(either(timed.url).lock("x", ttl=30.0))
    clock.advance(-4.0)
    assert old.wait_lost(SOON)
    assert (old.state, old.loss) == (State.LOST, Loss.GONE)
    assert [each.id for each in lock.queue()] == [new.id]
    assert lock.try_acquire() is None
    new.ensure_held()
    new.release()


def test_trap_44_an_expired_holder_does_not_come_back_into_its_queue(
    either: Connect, timed: Redis, clock: ServerClock
) -> None:
    lock, other = either(timed.url).lock("x", ttl=3.0), either(timed.url).lock("x", ttl=30.0)
    old = lock.acquire()
    waiter = in_background(lambda: other.acquire(timeout=20))
    wait_queue(lock, 2)
    clock.advance(4.0)  # the holder's end, but not the waiter's
    new = waiter.result(SOON)
    clock.advance(-4.0)
    assert old.wait_lost(SOON)
    assert (old.state, old.loss) == (State.LOST, Loss.GONE)
    assert [(each.id, each.granted) for each in lock.queue()] == [(new.id, True)]
    new.ensure_held()
    new.release()


@pytest.mark.parametrize("others", ["only try", "come to wait", "wait already"])
def test_trap_44_a_clock_that_went_back_an_hour_does_not_lengthen_a_dead_holders_lease(
    timed: Redis,
    clock: ServerClock,
    connect: Callable[[str], lockfast.Client],
    hold: Hold,
    others: str,
) -> None:
    ttl = 1.5
    lock = connect(timed.url).lock("x", ttl=ttl)
    holder = hold("x", ttl, url=timed.url)
    dead = holder.holds()
    early = others == "wait already"
    waiters = [in_background(lambda: lock.acquire(timeout=20))] if early else []
    wait_queue(lock, 1 + len(waiters))
    holder.kill()
    clock.advance(-HOUR)
    began = time.monotonic()
    if others == "only try":
        lease = take_soon(lock, 6.0)
    else:
        waiters = waiters or [in_background(lambda: lock.acquire(timeout=20))]
        lease = waiters[0].result(6.0)
    assert time.monotonic() - began < 2 * ttl + 1.0
    assert lease.token > dead
    assert [each.left <= ttl for each in lock.queue()] == [True]
    lease.release()


# --- 47: a copy of the claim arrives after its resignation ----------------------------------------


def _gave_up(server: Redis, proxy: Proxy, mode: str) -> None:
    """Wait until the resignation is out: at the server, or on the claim's own way behind it."""
    if mode == "asyncio":
        proxy.wait_held(2)
    else:
        wait_until(lambda: len(keys(server, "lockfast:{*}!*")) == 1, "a tombstone stands", SOON)


def _stays_free(server: Redis, client: lockfast.Client) -> None:
    wait_until(lambda: client.lock("x").queue() == [], "nobody has it", SOON)
    assert keys(server, "lockfast:{*}=*") == []
    lease = client.lock("x").try_acquire()
    assert lease is not None
    lease.release()


def test_trap_47_a_claim_that_arrives_after_a_timeout_does_not_come_to_life(
    request: pytest.FixtureRequest,
    either: Connect,
    server: Redis,
    proxy: Proxy,
    client: lockfast.Client,
) -> None:
    mine = either(via(proxy))
    mine.lock("warm").acquire().release()
    proxy.hold_requests(is_claim, 1)
    with pytest.raises((NotAcquired, EngineError)):
        mine.lock("x", ttl=10.0).acquire(timeout=0.3)
    _gave_up(server, proxy, request.node.callspec.params["either"])
    assert proxy.release_requests() >= 1
    _stays_free(server, client)


@pytest.mark.parametrize("mode", ["threads", "asyncio"])
def test_trap_47_a_claim_that_arrives_after_ctrl_c_does_not_come_to_life(
    server: Redis, proxy: Proxy, client: lockfast.Client, hold: Hold, mode: str
) -> None:
    proxy.hold_requests(is_claim, 1)
    holder = hold("x", 10.0, url=via(proxy), aio=mode == "asyncio")
    proxy.wait_held()
    holder.interrupt()
    assert holder.line() == "interrupted"
    _gave_up(server, proxy, mode)
    assert proxy.release_requests() >= 1
    _stays_free(server, client)


def test_trap_47_a_claim_that_arrives_after_the_client_has_closed_does_not_come_to_life(
    server: Redis, proxy: Proxy, client: lockfast.Client
) -> None:
    with lockfast.connect(via(proxy)) as mine:
        mine.lock("warm").acquire().release()
        proxy.hold_requests(is_claim, 1)
        with pytest.raises((NotAcquired, EngineError)):
            mine.lock("x", ttl=10.0).acquire(timeout=0.3)
    proxy.release_requests()
    _stays_free(server, client)


# --- 51: a wake-up overtakes the claim's reply ----------------------------------------------------


def test_trap_51_a_wake_up_that_overtakes_the_claims_reply_is_not_forgotten(
    either: Connect, server: Redis, proxy: Proxy, client: lockfast.Client
) -> None:
    mine = either(via(proxy))
    mine.lock("warm").acquire().release()
    wait_until(lambda: len(_channels(server)) == 1, "it listens", SOON)
    first = client.lock("x").acquire()
    wait_until(lambda: len(_channels(server)) == 2, "both listen", SOON)
    proxy.delay(0.0, replies=1.0)
    waiter = in_background(lambda: mine.lock("x").acquire(timeout=30))
    wait_queue(client.lock("x"), 2)
    proxy.heal()  # from here on replies and pushes are quick; the claim's reply is under way
    first.release()
    # Its reply takes the second that it was delayed for. The next heartbeat comes after 3.3 s.
    lease = waiter.result(2.5)
    lease.ensure_held()
    lease.release()


def _channels(server: Redis) -> list[object]:
    found = server.command("PUBSUB", "CHANNELS", "lockfast:*")
    assert isinstance(found, list)
    return list(found)


# --- 52: Ctrl-C cancels the reader that the releases need -----------------------------------------


@pytest.mark.parametrize("delay", [0.0, 0.1], ids=["", "on a slow network"])
def test_trap_52_after_ctrl_c_every_body_gives_its_lock_back(
    server: Redis, proxy: Proxy, client: lockfast.Client, delay: float
) -> None:
    count = 20
    argv = [sys.executable, "-m", "tests.traps.bodies", via(proxy), str(count)]
    with subprocess.Popen(
        argv, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stderr is not None
        held = {program.stdout.readline().split()[1] for _ in range(count)}
        proxy.delay(delay, replies=delay)
        began = time.monotonic()
        program.send_signal(signal.SIGINT)
        said = [line.split() for line in program.stdout]
        program.wait(SOON)
        assert time.monotonic() - began < SOON
        noise = program.stderr.read()
    assert sorted(said) == sorted(["left", name] for name in held)
    assert program.returncode == -signal.SIGINT
    assert noise.splitlines()[-1] == "KeyboardInterrupt"
    assert not re.search("never retrieved|never awaited|ignored|lockfast", noise)
    for name in held:
        lease = client.lock(name).try_acquire()
        assert lease is not None
        lease.release()
    assert keys(server, "lockfast:{*}=*") == []


# --- 53: Lua writes a ticket as 1.7631600001235e+15 -----------------------------------------------


def test_trap_53_tickets_keep_all_their_digits_in_every_script(
    either: Connect, server: Redis, client: lockfast.Client
) -> None:
    first = client.lock("x").acquire()
    assert len(str(first.token)) == 16
    (counter,) = [key for key in keys(server, "lockfast:{*}") if key.endswith(b"}")]
    assert server.command("GET", counter) == str(first.token).encode()
    top = 2**53 - 8  # beyond, a double skips integers; up to here each has its own digits
    first.release()
    server.command("SET", counter, top)

    holder = client.lock("x").acquire()
    assert holder.token == top + 1
    waiters = []
    for number in (2, 3, 4):
        waiters.append(in_background(lambda: either(server.url).lock("x").acquire(timeout=20)))
        wait_queue(client.lock("x"), number)
    assert [each.ticket for each in client.lock("x").queue()] == [top + n for n in (1, 2, 3, 4)]
    with pytest.raises(NotAcquired):
        client.lock("x").acquire(timeout=0.01)  # and that one took a ticket: top + 5
    assert server.command("GET", counter) == str(top + 5).encode()
    holder.release()
    for number, waiter in zip((2, 3, 4), waiters, strict=True):
        lease = waiter.result(SOON)
        assert lease.token == top + number
        assert client.lock("x").queue()[0].ticket == lease.token
        lease.release()
    last = client.lock("x").acquire()
    assert (last.token, last.fence_floor) == (top + 6, top + 6)
    last.release()


def test_trap_53_the_blocker_and_the_floor_keep_their_digits(
    server: Redis, connect: Callable[[str], lockfast.Client], client: lockfast.Client
) -> None:
    holder = client.lock("x").acquire()
    other = connect(server.url)
    waiter = in_background(lambda: other.lock("x").acquire(timeout=20))
    wait_queue(client.lock("x"), 2)
    (claim,) = other._session.table._by_id.values()
    wait_until(lambda: claim.blocker is not None, "it knows its blocker")
    assert claim.blocker is not None
    assert (claim.blocker.id, claim.blocker.ticket) == (holder.id, holder.token)
    holder.release()
    lease = waiter.result(SOON)
    assert lease.fence_floor == lease.token == claim.ticket
    lease.release()


def test_trap_53_no_ticket_is_minted_at_two_to_the_53(
    server: Redis, client: lockfast.Client
) -> None:
    client.lock("x").acquire().release()
    (counter,) = keys(server, "lockfast:{*}")
    server.command("SET", counter, 2**53 - 1)
    with pytest.raises(EngineRefused, match=re.escape("2^53")):
        client.lock("x").acquire(timeout=5)
    assert client.lock("x").queue() == []
