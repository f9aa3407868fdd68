"""Code of lockfast that a signal handler or a finalizer runs in the middle of lockfast's own.

The interruption is put before every single bytecode of the table of claims, one after the other:
what a garbage collection or a signal does by chance, here happens everywhere.
"""

from __future__ import annotations

import gc
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from types import FrameType, SimpleNamespace
from typing import Any

import pytest

import lockfast
from lockfast.claims import claim, departures, notices, owners, schedule, table
from lockfast.core import timetable
from lockfast.engines import memory
from lockfast.engines.etcd import register
from lockfast.engines.etcd.register import Register
from lockfast.port import Ask, Kind, Shape
from tests.interrupts.bytecodes import Interruption, interrupted, settled
from tests.servers import Redis, wait_until

PARTS = (table, departures, schedule, notices, claim, owners, timetable)
TABLE = {str(module.__file__) for module in PARTS}
MEMORY = {str(memory.__file__)}
pytestmark = pytest.mark.timeout(240)
ENGINES = count()
BEAT = 800  # bytecodes of the table in one beat of the heart, and more


@pytest.fixture
def client() -> Iterator[lockfast.Client]:
    with lockfast.connect(f"memory://reentry{next(ENGINES)}") as made:
        made.lock("warm").acquire().release()
        yield made


def block(client: lockfast.Client) -> None:
    with client.lock("a", ttl=5.0) as lease:
        lease.ensure_held()


def patient(client: lockfast.Client) -> None:
    with client.lock("a", ttl=5.0), pytest.raises(lockfast.NotAcquired):
        client.lock("a").acquire(timeout=0.0001)


def many(client: lockfast.Client) -> None:
    with client.lock_all("b", "c"):
        pass


def lost(client: lockfast.Client) -> None:
    lease = client.lock("d").acquire()
    lease.on_lost(bool)
    assert not lease.wait_lost(timeout=0.0)
    lease.fenced()
    with pytest.raises(lockfast.LeaseLost):
        lease.release()


WORKS = pytest.mark.parametrize("work", [block, patient, many, lost])
Work = Callable[[lockfast.Client], None]


@WORKS
def test_a_handler_may_take_a_lock_at_every_bytecode_of_the_table(
    client: lockfast.Client, work: Work
) -> None:
    def handler() -> None:
        with client.lock("handler", ttl=5.0, timeout=5.0) as lease:
            lease.ensure_held()

    number = 0
    while interrupted(TABLE, number := number + 1, lambda: work(client), handler):
        pass
    assert number > 100
    wait_until(lambda: settled(client), "an empty table", 5.0)


@WORKS
@pytest.mark.parametrize(("files", "least"), [(TABLE, 100), (MEMORY, 50)], ids=["table", "memory"])
def test_a_handler_may_release_at_every_bytecode_of_the_table_and_of_the_engine(
    client: lockfast.Client, work: Work, files: set[str], least: int
) -> None:
    number, struck = 0, True
    while struck:
        kept = client.lock("kept", ttl=5.0, timeout=1.0).acquire()
        number += 1
        struck = interrupted(files, number, lambda: work(client), kept.release)
        if not struck:
            kept.release()
        assert kept.state is lockfast.State.RELEASED
    assert number > least
    wait_until(lambda: settled(client), "an empty table", 5.0)


def test_a_handler_may_release_the_very_lease_that_is_released(client: lockfast.Client) -> None:
    number, struck = 0, True
    while struck:
        lease = client.lock("same", ttl=5.0, timeout=1.0).acquire()
        number += 1
        struck = interrupted(TABLE, number, lease.release, lease.release)
        assert lease.state is lockfast.State.RELEASED
    assert number > 50
    wait_until(lambda: settled(client), "an empty table", 5.0)


def test_a_handler_may_wait_for_a_lock_at_every_bytecode_of_the_table(
    client: lockfast.Client,
) -> None:
    """The grant comes through the heart, which needs the table that the handler interrupted."""
    held = client.lock("wanted", ttl=5.0)
    timers: list[threading.Timer] = []

    def handler() -> None:
        other = held.acquire(timeout=1.0)
        timer = threading.Timer(0.002, other.release)
        timer.start()
        timers.append(timer)
        with client.lock("wanted", ttl=5.0, timeout=5.0):
            pass

    def work() -> None:
        with client.lock("a", ttl=5.0):
            pass

    number = 0
    while interrupted(TABLE, number := number + 1, work, handler):
        timers.pop().join()
    assert number > 100
    wait_until(lambda: settled(client), "an empty table", 5.0)


def test_a_handler_may_close_the_client_at_every_bytecode_of_the_table() -> None:
    number, struck = 0, True
    while struck:
        number += 1
        engine = f"memory://closing{next(ENGINES)}"
        with lockfast.connect(engine) as client, lockfast.connect(engine) as other:
            client.lock("warm").acquire().release()
            kept = client.lock("kept", ttl=5.0).acquire()

            def work(client: lockfast.Client = client) -> None:
                try:
                    with client.lock("a", ttl=5.0):
                        pass
                except lockfast.LockfastError:
                    return  # the client is closed

            struck = interrupted(TABLE, number, work, client.close)
            client.close()
            assert kept.state is lockfast.State.RELEASED
            assert other.inspect() == []


def test_a_finalizer_may_use_the_client_at_every_bytecode_of_the_heart(
    client: lockfast.Client, caplog: pytest.LogCaptureFixture
) -> None:
    """The collector runs wherever it wants to: in the heart's thread too."""
    losing = client.lock("losing", ttl=5.0).acquire()
    state: list[Interruption] = []

    def trace(frame: FrameType, event: str, argument: object) -> Any:  # noqa: ANN401  # as settrace wants
        return state[-1].trace(frame, event, argument) if state else None

    traced = threading.Event()

    def begin() -> None:
        sys.settrace(trace)
        traced.set()

    losing.on_lost(begin)
    losing.fenced()  # the heart runs the callback, and is traced from then on
    assert traced.wait(5.0)
    for number in range(1, BEAT):
        kept = client.lock("kept", ttl=5.0, timeout=1.0).acquire()
        held = client.lock("held", ttl=5.0, timeout=1.0).acquire()

        def finalizer(kept: lockfast.Lease = kept) -> None:
            kept.release()
            with client.lock("finalizer", ttl=0.5, timeout=5.0):
                pass

        interruption = Interruption(TABLE, number, finalizer)
        state.append(interruption)
        table, end = client._session.table, time.monotonic() + 5.0
        while not interruption.struck and time.monotonic() < end:
            table.hasten(kept.claim, 0.0)
            table.hasten(held.claim, 0.0)
            time.sleep(0.0005)
        state.clear()
        held.release()
        if interruption.error is not None:
            raise interruption.error
        assert interruption.struck
    assert "internal error" not in caplog.text
    wait_until(lambda: settled(client), "an empty table", 5.0)


@pytest.fixture
def redis() -> Iterator[lockfast.Client]:
    with Redis() as server, lockfast.connect(server.url) as made:
        made.lock("warm").acquire().release()
        yield made


def test_a_signal_handler_releases_and_acquires_while_its_thread_does(
    redis: lockfast.Client,
) -> None:
    """As a service does on SIGTERM; here hundreds of times a second."""
    kept = [redis.lock("kept", ttl=5.0).acquire()]
    handled = 0

    def handler(*_: object) -> None:
        nonlocal handled
        handled += 1
        kept.pop().release()
        kept.append(redis.lock("kept", ttl=5.0, timeout=5.0).acquire())
        signal.setitimer(signal.ITIMER_PROF, 0.0007)

    before = signal.signal(signal.SIGPROF, handler)
    end = time.monotonic() + 3.0
    try:
        signal.setitimer(signal.ITIMER_PROF, 0.001)
        rounds = 0
        while time.monotonic() < end:
            with redis.lock(f"work{rounds}", ttl=5.0):
                rounds += 1
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)
    assert handled > 100
    assert rounds > 100
    kept[0].release()
    wait_until(lambda: settled(redis), "an empty table", 5.0)


def test_the_collector_closes_generators_that_were_left_inside_a_block(
    redis: lockfast.Client,
) -> None:
    """A generator in a reference cycle is closed wherever the collector happens to run."""

    class Rows:
        def __init__(self, number: int) -> None:
            self.rows = self._rows(number)  # a cycle: self, the generator, its frame, self

        def _rows(self, number: int) -> Iterator[int]:
            with redis.lock(f"rows{number}", ttl=5.0):
                yield from range(10)

    before = gc.get_threshold()
    gc.set_threshold(50)
    try:
        for number in range(1500):
            next(Rows(number).rows)
            with redis.lock(f"work{number}", ttl=5.0):
                pass
    finally:
        gc.set_threshold(*before)
    gc.collect()
    wait_until(lambda: settled(redis), "an empty table", 5.0)


def test_a_handler_may_end_claims_at_every_bytecode_of_the_register_of_etcd() -> None:
    """A claim is ended, and another copy of it has had no answer."""
    time_now = 1000.0
    shape = Shape("x", 5.0, Kind.LOCK, 1, 1)

    def expire(claims: Register) -> None:
        for id_, over in claims.expire().items():
            claims._has_ended(id_, over.epoch)

    def work(claims: Register, ask: Ask) -> None:
        claims.sending([ask])
        claims.doubt([ask])
        claims._has_ended(ask.id, ask.epoch)
        expire(claims)

    number, struck = 0, True
    while struck:
        transport: Any = SimpleNamespace(now=lambda: time_now)
        claims = Register(transport)
        number += 1
        ask = Ask(f"{number:032x}", shape, True, time_now - 1.0, b"")  # noqa: FBT003  # it waits
        struck = interrupted(
            {str(register.__file__)}, number, partial(work, claims, ask), partial(expire, claims)
        )
        assert not [*claims._copies, *claims._unsure, *claims._over]
    assert number > 100
