"""APScheduler 3: run the jobs of a scheduler only in the process that is the leader."""

from __future__ import annotations

from typing import Any, overload

from apscheduler.schedulers.base import BaseScheduler

from lockfast.aio import AsyncCandidacy, AsyncElection
from lockfast.blocking.client import Candidacy, Election


@overload
def leading(scheduler: BaseScheduler, election: Election, *, value: str = "") -> Candidacy: ...


@overload
def leading(
    scheduler: BaseScheduler, election: AsyncElection, *, value: str = ""
) -> AsyncCandidacy: ...


def leading(
    scheduler: BaseScheduler, election: Election | AsyncElection, *, value: str = ""
) -> Candidacy | AsyncCandidacy:
    """Make a scheduler run jobs only while this process is the leader.

    The scheduler checks the lease before each round. Otherwise a process that was paused could run
    the jobs that came due meanwhile, before it learns that it is not the leader any more.

    Args:
        scheduler: The scheduler. Start and shut it down inside of the candidacy's block.
        election: The election that all processes with such a scheduler take part in.
        value: A text that all clients can read while this process leads.

    Returns:
        A candidacy. Use it in a `with` statement, or `async with` for an `AsyncElection`.

    Example:
        ::

            scheduler = BackgroundScheduler()
            scheduler.add_job(print, "interval", ["the leader says hello"], seconds=60)
            with leading(scheduler, client.election("scheduler", ttl=10)):
                scheduler.start()
                scheduler.shutdown()
    """

    def gained(_: object) -> None:
        if scheduler.running:  # a scheduler that is started later looks for due jobs by itself
            scheduler.wakeup()

    candidacy = election.run(gained, lambda: None, value=value)
    process = scheduler._process_jobs  # noqa: SLF001  # there is no public hook before each round

    def processed() -> Any:  # noqa: ANN401  # the scheduler's: seconds, or None to sleep on
        lease = candidacy.lease
        return process() if lease is not None and lease.remaining > 0.0 else None

    scheduler._process_jobs = processed  # noqa: SLF001  # the same
    return candidacy
