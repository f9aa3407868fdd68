"""SQLite in trouble: a writer that does not end, signal handlers, gevent, and when clients look."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest

import lockfast
from lockfast import EngineUnavailable, Loss, aio
from lockfast.engines.sqlite import claims
from lockfast.engines.sqlite.listener import Listener
from tests.contract import under_gevent
from tests.servers import wait_until


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/locks.db"


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


@contextmanager
def writer(url: str) -> Iterator[sqlite3.Connection]:
    """Hold the database's only write lock, as a process does that was stopped in a transaction."""
    with closing(sqlite3.connect(path_of(url), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("ROLLBACK")


def test_a_writer_that_does_not_end_costs_no_more_than_the_timeout(url: str) -> None:
    with lockfast.connect(url) as client:
        client.lock("warm").acquire().release()
        with writer(url):
            began = time.monotonic()
            with pytest.raises(EngineUnavailable, match="busy") as caught:
                client.lock("x").acquire(timeout=0.5)
            assert 0.4 < time.monotonic() - began < 2.0
            assert caught.value.sent is False
        client.lock("x").acquire(timeout=2).release()


@pytest.mark.parametrize("names", [("x",), ("x", "y")], ids=["one", "all"])
def test_an_attempt_that_does_not_wait_gives_up_after_a_second_or_two(
    url: str, names: tuple[str, ...]
) -> None:
    """And not after ten, which other engines may need for their round trips."""
    with lockfast.connect(url) as client:
        client.lock("warm").acquire().release()
        lock = client.lock_all(*names) if len(names) > 1 else client.lock(*names)
        with writer(url):
            for attempt in (lock.try_acquire, partial(lock.acquire, timeout=0)):
                began = time.monotonic()
                # The lock may be free: this is no `NotAcquired`, and not None.
                with pytest.raises(EngineUnavailable, match="busy"):
                    attempt()
                assert 0.9 < time.monotonic() - began < 4.0


def test_an_attempt_that_does_not_wait_gives_up_in_asyncio_too(url: str) -> None:
    async def play() -> float:
        async with aio.connect(url) as client:
            await (await client.lock("warm").acquire()).release()
            began = time.monotonic()
            with writer(url), pytest.raises(EngineUnavailable, match="busy"):
                await client.lock("x").try_acquire()
            return time.monotonic() - began

    assert 0.9 < asyncio.run(play()) < 4.0


def test_a_writer_that_does_not_end_does_not_block_the_event_loop(url: str) -> None:
    async def play() -> None:
        async with aio.connect(url) as client:
            await (await client.lock("warm").acquire()).release()
            ticks: list[float] = []

            async def tick() -> None:
                while True:
                    ticks.append(time.monotonic())
                    await asyncio.sleep(0.01)

            ticking = asyncio.create_task(tick())
            with writer(url):
                with pytest.raises(EngineUnavailable, match="busy"):
                    await client.lock("x").acquire(timeout=1.5)
                # Those behind it in the thread's queue keep their own deadlines.
                many = [client.lock(f"x {n}").acquire(timeout=0.5) for n in range(5)]
                began = time.monotonic()
                found = await asyncio.gather(*many, return_exceptions=True)
                assert all(isinstance(each, EngineUnavailable) for each in found), found
                assert time.monotonic() - began < 2.0
            ticking.cancel()
            assert len(ticks) > 40
            assert max(later - tick for tick, later in pairwise(ticks)) < 1.0
            await (await client.lock("x").acquire(timeout=2)).release()

    asyncio.run(play())


def test_a_lease_outlives_a_writer_that_ends_in_time_and_is_lost_by_another(url: str) -> None:
    with lockfast.connect(url) as client:
        lease = client.lock("x", ttl=5).acquire()
        with writer(url):
            time.sleep(2.5)
        time.sleep(3.0)
        lease.ensure_held()
        with writer(url):
            wait_until(lambda: lease.loss is not None, "the lease is lost", 10)
        assert lease.loss in {Loss.EXPIRED, Loss.UNREACHABLE}
        client.lock("x", ttl=3).acquire(timeout=5).release()


def test_a_signal_handler_in_the_middle_of_a_transaction_hangs_nobody(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    took: list[float] = []
    with lockfast.connect(url) as client:
        kept = client.lock("kept", ttl=60).acquire()

        def handle(_signal: int, _frame: FrameType | None) -> None:
            try:
                client.lock("y", ttl=60).try_acquire()
            except EngineUnavailable as error:
                said.append(str(error))
            began = time.monotonic()
            kept.release()
            took.append(time.monotonic() - began)

        note = claims.Claims._sweep

        def interrupted(self: claims.Claims, transaction: object) -> None:
            os.kill(os.getpid(), signal.SIGUSR1)
            note(self, transaction)  # type: ignore[arg-type]

        before = signal.signal(signal.SIGUSR1, handle)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(claims.Claims, "_sweep", interrupted)
                lease = client.lock("x", ttl=60).acquire(timeout=5)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert "signal handler" in said[0]
        assert len(said) == 1
        assert took[0] < 1.0
        assert client.lock("kept").holders() == []
        lease.release()
        assert client.lock("x").holders() == []


def test_closing_takes_no_time_and_ends_the_thread(url: str) -> None:
    async def play() -> float:
        client = aio.connect(url)
        await (await client.lock("x").acquire()).release()
        assert any(each.name == "lockfast-sqlite" for each in threading.enumerate())
        began = time.monotonic()
        await client.close()
        return time.monotonic() - began

    assert min(asyncio.run(play()) for _ in range(3)) < 0.4  # one of them, on a busy machine
    wait_until(
        lambda: all(each.name != "lockfast-sqlite" for each in threading.enumerate()),
        "the thread has ended",
        5,
    )


def test_a_client_without_waiters_does_not_look(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    look = Listener.look

    def counted(self: Listener, store: object) -> bool:
        looks.append(time.monotonic())
        return look(self, store)  # type: ignore[arg-type]

    monkeypatch.setattr(Listener, "look", counted)
    with lockfast.connect(url) as client, lockfast.connect(url) as other:
        lease = client.lock("x", ttl=60).acquire()
        time.sleep(0.2)
        assert looks == []
        with pytest.raises(lockfast.NotAcquired):
            other.lock("x", ttl=60).acquire(timeout=0.5)
        assert 10 < len(looks) < 600
        time.sleep(0.1)
        looks.clear()
        time.sleep(0.2)
        assert looks == []
        lease.release()


def test_a_wait_under_gevent_keeps_its_deadline_and_stops_nobody(url: str) -> None:
    under_gevent.waited(url)
