"""The gate of a scheduler: it asks before each round whether this process leads."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler

from lockfast import aio
from lockfast.integrations.apscheduler import leading
from lockfast.testing.lab import Lab
from tests.servers import wait_until


@pytest.fixture
def scheduler() -> Iterator[BackgroundScheduler]:
    scheduler = BackgroundScheduler()
    yield scheduler
    if scheduler.running:
        scheduler.shutdown()


def test_a_scheduler_waits_until_it_leads(
    lockfast_lab: Lab, scheduler: BackgroundScheduler
) -> None:
    ran: list[int] = []
    election = lockfast_lab.client.election("jobs")
    with lockfast_lab.connect().election("jobs").campaign() as other:
        candidacy = leading(scheduler, election)
        with candidacy:
            scheduler.add_job(lambda: ran.append(1), "interval", seconds=0.01)
            scheduler.start()
            wait_until(
                lambda: len(lockfast_lab.client.lock("jobs").queue()) == 2, "it is a candidate"
            )
            assert not ran
            other.release()
            wait_until(lambda: len(ran) > 2, "it leads, and its jobs run")
        assert candidacy.lease is None
        assert scheduler._process_jobs() is None


def test_one_that_is_started_when_it_leads_runs_at_once(
    lockfast_lab: Lab, scheduler: BackgroundScheduler
) -> None:
    ran: list[int] = []
    scheduler.add_job(lambda: ran.append(1), "interval", seconds=0.01)
    candidacy = leading(scheduler, lockfast_lab.client.election("jobs"))
    with candidacy:
        wait_until(lambda: candidacy.lease is not None, "it leads")
        scheduler.start()
        wait_until(lambda: len(ran) > 2, "its jobs run")


def test_a_leader_that_was_stopped_runs_nothing_when_it_goes_on(
    lockfast_lab: Lab, scheduler: BackgroundScheduler
) -> None:
    ran: list[int] = []
    candidacy = leading(scheduler, lockfast_lab.client.election("jobs", ttl=30))
    with candidacy:
        wait_until(lambda: candidacy.lease is not None, "it leads")
        scheduler.start()
        # Another leads meanwhile, and for good: or it would be elected again, and run what is due.
        rival = lockfast_lab.connect().lock("jobs", ttl=1000)
        with lockfast_lab.pause(lockfast_lab.client):
            lockfast_lab.clock.advance(31)
            assert rival.try_acquire() is not None
            due = datetime.now().astimezone() - timedelta(seconds=0.5)
            scheduler.add_job(lambda: ran.append(1), "date", run_date=due)
            assert scheduler._process_jobs() is None
            assert len(scheduler.get_jobs()) == 1
    assert not ran


def test_in_asyncio_too() -> None:
    async def main() -> None:
        ran = asyncio.Event()
        scheduler = AsyncIOScheduler()
        scheduler.add_job(ran.set, "interval", seconds=0.01)
        async with aio.connect("memory://") as client:
            candidacy = leading(scheduler, client.election("jobs"))
            async with candidacy:
                scheduler.start()
                async with asyncio.timeout(10):
                    await ran.wait()
            ran.clear()
            await asyncio.sleep(0.1)
            assert not ran.is_set()
            scheduler.shutdown()
            await asyncio.sleep(0)

    asyncio.run(main())
