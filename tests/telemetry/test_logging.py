"""Logs, in the standard library's way: each event once, with what to do next."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from types import FrameType

import pytest

import lockfast
from lockfast.errors import LeaseLost, NotAcquired
from lockfast.testing import Contract, Stage, driven
from lockfast.testing.harness.verbs import acquire, release
from lockfast.testing.lab import AsyncLab, Lab
from tests.servers.process import wait_until


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Callable[[int], list[str]]:
    """Give what was said at a level."""
    caplog.set_level(logging.INFO, "lockfast")
    return lambda level: [
        record.getMessage() for record in caplog.records if record.levelno == level
    ]


Said = Callable[[int], list[str]]


class TestBothModes(Contract):
    @driven
    async def test_jeopardy_is_a_warning_and_the_loss_an_error_each_once(
        self, stage: Stage, said: Said
    ) -> None:
        client, way = stage.shaky_client()
        lease = await acquire(client.lock("invoice:42"))
        table, now = client._session.table, client._session.runtime.now
        way.cut = True
        table.hasten(lease.claim, now())
        await stage.mode.until(lambda: said(logging.WARNING), "the jeopardy is logged")
        table.hasten(lease.claim, now())  # and fails again, without a word
        lease.claim.until = now()  # so much time has passed
        table.hasten(lease.claim, now())
        await stage.mode.until(lambda: said(logging.ERROR), "the loss is logged")
        way.cut = False
        with pytest.raises(LeaseLost):
            await release(lease)
        (warning,), (error,) = said(logging.WARNING), said(logging.ERROR)
        assert (
            f"a renewal failed, and the lease is in jeopardy: 'invoice:42' (token {lease.token})"
            in warning
        )
        assert "cut off by the test" in warning
        assert "Check the engine" in warning
        assert f"the lease on 'invoice:42' (token {lease.token}) is lost" in error
        assert "could not be reached" in error
        assert "Stop the work that it protects" in error

    @driven
    async def test_a_loss_that_only_the_release_finds_is_told_like_any_other(
        self, stage: Stage, said: Said
    ) -> None:
        lease = await acquire(stage.client().lock("invoice:42"))
        told: list[str] = []
        lease.on_lost(lambda: told.append("lost"))
        engine = stage.actor()
        assert await engine.resign(lease.claim.ask) == [True]  # as an operator breaks it
        with pytest.raises(LeaseLost):
            await release(lease)
        await stage.mode.until(lambda: told, "the callback was called")
        assert told == ["lost"]
        (error,) = said(logging.ERROR)
        assert "the engine no longer has it" in error

    @driven
    async def test_a_reader_has_a_ticket_and_no_token(self, stage: Stage, said: Said) -> None:
        lease = await acquire(stage.client().rwlock("book").read())
        lease.fenced()
        await stage.mode.until(lambda: said(logging.ERROR), "the loss is logged")
        assert f"'book' (ticket {lease.ticket})" in said(logging.ERROR)[0]

    @driven
    async def test_a_pair_calls_nothing_of_logging(self, stage: Stage) -> None:
        lock = stage.client().lock("quick")
        await release(await acquire(lock))
        called: list[str] = []

        def note(frame: FrameType, event: str, _: object) -> None:
            if event == "call" and frame.f_code.co_filename == logging.__file__:
                called.append(frame.f_code.co_name)

        sys.setprofile(note)
        try:
            await release(await acquire(lock))
        finally:
            sys.setprofile(None)
        assert not called


def test_a_wait_of_a_second_is_told_once_with_the_holder(said: Said) -> None:
    with Lab() as lab:
        lease = lab.client.lock("invoice:42", purpose="nightly billing").acquire()
        other = lab.connect()
        waiter = threading.Thread(target=lambda: other.lock("invoice:42").acquire().release())
        waiter.start()
        wait_until(lambda: len(lab.client.lock("invoice:42").queue()) == 2, "it waits")
        lab.clock.advance(1.5)
        wait_until(lambda: bool(said(logging.INFO)), "the wait is told")
        lab.clock.advance(60)
        lease.release()
        waiter.join()
    (info,) = said(logging.INFO)
    assert "still waiting for 'invoice:42' after 1 s" in info
    assert "(nightly billing) on" in info
    assert f"(ticket {lease.token})" in info
    assert "lock.queue()" in info


def test_a_task_that_waits_is_told_of_too(said: Said) -> None:
    async def main() -> None:
        async with AsyncLab() as lab:
            lease = await lab.client.lock("invoice:42").acquire()
            other = asyncio.create_task(_lock_and_go(lab))
            while len(await lab.client.lock("invoice:42").queue()) < 2:  # noqa: ASYNC110  # nor a queue
                await asyncio.sleep(0.005)
            await lab.clock.advance(1.5)
            while not said(logging.INFO):  # noqa: ASYNC110  # a log sets no event
                await asyncio.sleep(0.005)
            await lease.release()
            await other

    async def _lock_and_go(lab: AsyncLab) -> None:
        async with lab.connect().lock("invoice:42"):
            pass

    asyncio.run(main())
    assert len(said(logging.INFO)) == 1


def test_a_wait_that_times_out_before_a_second_says_nothing(said: Said) -> None:
    with lockfast.connect("memory://") as client, client.lock("x"):
        with pytest.raises(NotAcquired):
            client.lock("x").acquire(timeout=0.05)
        assert not said(logging.INFO)


def test_a_waiter_that_looks_for_deadlocks_tells_of_its_wait_too(said: Said) -> None:
    with Lab() as lab:
        held = lab.client.lock("b").acquire()
        other = lab.connect(deadlock_after=0.5)

        def wait() -> None:
            with other.lock("a"), other.lock("b"):
                pass

        waiter = threading.Thread(target=wait)
        waiter.start()
        wait_until(lambda: len(lab.client.lock("b").queue()) == 2, "it waits")
        lab.clock.advance(0.6)
        lab.clock.advance(0.6)
        wait_until(lambda: bool(said(logging.INFO)), "the wait is told")
        held.release()
        waiter.join()
    assert len(said(logging.INFO)) == 1


def test_a_renewal_that_was_late_is_told_when_it_came_in_time(said: Said) -> None:
    with Lab() as lab:
        lease = lab.client.lock("invoice:42", ttl=30).acquire()
        with lab.pause(lab.client):
            lab.clock.advance(20)
            paused = lease.state
        lab.clock.advance(60)
        assert (paused, lease.state) == (lockfast.State.JEOPARDY, lockfast.State.HELD)
        lease.release()
    (warning,) = said(logging.WARNING)
    assert f"a renewal was late: 'invoice:42' (token {lease.token})" in warning
    assert not said(logging.ERROR)


def test_a_program_that_configures_no_logging_sees_warnings_and_errors() -> None:
    """Python prints them to standard error itself, unless a library has a handler of its own."""
    code = """
        from lockfast.testing.lab import Lab
        with Lab() as lab:
            lease = lab.client.lock("invoice:42", ttl=30).acquire()
            with lab.pause(lab.client):
                lab.clock.advance(31)
            lab.clock.advance(1)
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True
    )
    assert "the lease on 'invoice:42'" in ran.stderr
    assert "is lost" in ran.stderr
