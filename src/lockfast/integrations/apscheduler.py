"""APScheduler 3: of all processes that have the scheduler, the leader runs its jobs."""

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
    """Let a scheduler run jobs only while this process leads; enter the candidacy with `with`.

    The scheduler is started and shut down as ever, inside of that block. It asks before each round:
    a process that was stopped and goes on would otherwise run what came due meanwhile, before
    anybody could tell it to pause.
    """

    def gained(_: object) -> None:
        if scheduler.running:  # one that is started later looks by itself
            scheduler.wakeup()

    candidacy = election.run(gained, lambda: None, value=value)
    process = scheduler._process_jobs  # noqa: SLF001  # there is no other place to refuse

    def processed() -> Any:  # noqa: ANN401  # the scheduler's: seconds, or None to sleep on
        lease = candidacy.lease
        return process() if lease is not None and lease.remaining > 0.0 else None

    scheduler._process_jobs = processed  # noqa: SLF001  # the same
    return candidacy
