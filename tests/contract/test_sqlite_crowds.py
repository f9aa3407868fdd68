"""SQLite in a crowd: renewals go ahead of claims, in the thread of asyncio and in the file."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

import lockfast
from lockfast import EngineUnavailable, aio
from lockfast.engines.sqlite import store
from lockfast.engines.sqlite.worker import Job, Worker
from lockfast.runtime.drive import drive


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks.db"


@contextmanager
def writer(path: Path) -> Iterator[None]:
    """Hold the database's only write lock."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def test_an_urgent_job_runs_before_those_that_have_not_begun() -> None:
    async def play() -> list[str]:
        loop, ran = asyncio.get_running_loop(), []
        begun, go = threading.Event(), threading.Event()

        def first() -> None:
            begun.set()
            go.wait(20)
            ran.append("first")

        worker = Worker(lambda: None, lambda: None)
        jobs = [Job(first, loop)]
        worker.submit(jobs[0])
        await asyncio.to_thread(begun.wait, 20)
        for name, urgent in [("claim", False), ("release", False), ("renewal", True)]:
            jobs.append(Job(lambda name=name: ran.append(name), loop))  # type: ignore[misc]
            worker.submit(jobs[-1], urgent=urgent)
        worker.stop()
        go.set()
        await asyncio.gather(*(job.future for job in jobs))
        return ran

    assert asyncio.run(play()) == ["first", "renewal", "claim", "release"]


def test_a_renewal_does_not_wait_for_a_claim_that_waits_for_the_database(path: Path) -> None:
    """Both have one thread in asyncio. It says that the database is busy, so it has tried."""

    async def play() -> None:
        async with aio.connect(f"sqlite:///{path}") as client:
            lease = await client.lock("held", ttl=60).acquire()
            session = client._session
            (claim,) = session.table.all()
            with writer(path):
                waiting = asyncio.create_task(client.lock("x", ttl=60).acquire(timeout=3))
                await asyncio.sleep(0.2)
                with pytest.raises(EngineUnavailable, match="is busy"):
                    await session.engine.renew([claim.ask], session.runtime.now() + 0.3)
                assert not waiting.done()
            await (await waiting).release()
            await lease.release()

    asyncio.run(play())


def pauses(path: Path, seconds: float, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the longest pauses between two attempts of a claim, a renewal and a release."""
    slept: list[float] = []
    sleep = time.sleep

    def noted(pause: float) -> None:
        slept.append(pause)
        sleep(pause)

    found = []
    with lockfast.connect(f"sqlite:///{path}") as client:
        client.lock("held", ttl=60).acquire()
        session = client._session
        engine, ask = session.engine, session.table.all()[0].ask
        requests = (engine.claim_all, engine.renew, partial(engine.resign, doubt=False))
        with writer(path), monkeypatch.context() as patch:
            patch.setattr(time, "sleep", noted)
            for request in requests:
                slept.clear()
                with pytest.raises(EngineUnavailable):
                    drive(request([ask], session.runtime.now() + seconds))
                found.append(max(slept))
    return found


def test_renewals_and_releases_ask_for_the_database_more_often_than_claims(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, renewal, release = pauses(path, 0.3, monkeypatch)
    assert claim > 4 * store.URGENT
    assert renewal <= store.URGENT
    assert release <= store.URGENT


def test_nobody_is_in_a_hurry_when_the_database_is_stuck(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "CROWDED", 0.1)
    _, renewal, release = pauses(path, 0.5, monkeypatch)
    assert renewal > 4 * store.URGENT
    assert release > 4 * store.URGENT
