"""A candidacy whose callbacks take their time, or end badly."""

from __future__ import annotations

import asyncio
import sys
import threading
import time

import pytest

import lockfast
import lockfast.aio
from lockfast.aio import AsyncLease
from lockfast.primitives import candidacy
from tests.servers import wait_until


def test_it_is_not_begun_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old thread went on with its loop, so that two campaigned, and `on_gain` came twice."""
    monkeypatch.setattr(candidacy, "PARTING", 0.1)
    go_on, gained = threading.Event(), threading.Event()

    def gain(_: lockfast.Lease) -> None:
        gained.set()
        go_on.wait(20.0)

    with lockfast.connect("memory://candidacy") as client:
        mine = client.election("x", ttl=5.0).run(gain, bool)
        with mine:
            assert gained.wait(5.0)
        with pytest.raises(RuntimeError, match="one of its callbacks is still running"), mine:
            pass
        go_on.set()
        wait_until(lambda: mine._campaigning is None, "it has ended", 5.0)
        gained.clear()
        with mine:
            assert gained.wait(5.0)


def test_a_value_that_cannot_be_published_is_refused_at_once() -> None:
    """It failed in the background, once a second, and nobody ever led."""
    with lockfast.connect("memory://") as client:
        election = client.election("x")
        with pytest.raises(ValueError, match="at most 1024 bytes"):
            election.run(lambda _: None, lambda: None, value="v" * 1025)
        with pytest.raises(TypeError, match="a leader's value must be a str"):
            election.run(lambda _: None, lambda: None, value=7)  # type: ignore[arg-type]  # the test


def test_a_callback_that_ends_by_a_cancellation_does_not_end_the_candidacy() -> None:
    """`task.cancel(); await task` in `on_lose` ended it, and left the leadership taken."""
    gained: list[int] = []
    work: list[asyncio.Task[None]] = []

    async def start(lease: AsyncLease) -> None:
        gained.append(lease.token)
        work.append(asyncio.create_task(asyncio.sleep(60)))

    async def stop() -> None:
        task = work.pop()
        task.cancel()
        await task

    async def main() -> None:
        async with lockfast.aio.connect("memory://candidacy") as client:
            async with client.election("x", ttl=5.0).run(start, stop) as candidacy:
                async with asyncio.timeout(5.0):
                    while len(gained) < 2:
                        await asyncio.sleep(0.01)
                        if candidacy.lease is not None and len(gained) == 1:
                            candidacy.lease.fenced()
            assert await client.election("x").leader() is None

    asyncio.run(main())


def test_a_callback_that_exits_does_not_end_the_candidacy() -> None:
    gained: list[int] = []
    with (
        lockfast.connect("memory://candidacy") as client,
        client.election("x", ttl=5.0).run(lambda lease: gained.append(lease.token), sys.exit) as it,
    ):
        wait_until(lambda: it.lease is not None, "it leads", 5.0)
        assert it.lease is not None
        it.lease.fenced()
        wait_until(lambda: len(gained) == 2, "it leads again", 5.0)


def test_the_next_leader_waits_until_the_last_one_has_stopped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Leaving the block returned after 5 s, and closing the client resigned under `on_lose`."""
    monkeypatch.setattr(candidacy, "PARTING", 0.1)
    leads, stopped = threading.Event(), threading.Event()

    def stop() -> None:
        time.sleep(1.0)
        stopped.set()

    with lockfast.connect("memory://candidacy") as other:
        with (
            lockfast.connect("memory://candidacy") as client,
            client.election("x", ttl=5.0).run(lambda _: leads.set(), stop),
        ):
            assert leads.wait(5.0)
        assert stopped.is_set()
        assert "on_lose of the election 'x' is still running" in caplog.text
        other.election("x", ttl=5.0).campaign(timeout=5.0).release()
