"""A scheduler for `celery beat`: of several running beats, only the leader sends tasks."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from celery.beat import PersistentScheduler

from lockfast.blocking.client import Candidacy, Election, Lease
from lockfast.errors import EngineError

log = logging.getLogger("lockfast")
LOOK = 1.0  # the longest pause between two ticks, in seconds


class LeadingScheduler(PersistentScheduler):
    """Celery's own scheduler, which sends tasks only while it leads `app.conf.lockfast_beat`.

    Each beat has a schedule file of its own, so the followers keep theirs up to date. An entry
    counts as sent if it was due and a leader was seen alive after that. The next leader sends the
    entries that came due when there was no leader.

    Example:
        Name the election in the configuration, and start each beat with
        `celery beat -S lockfast.integrations.celery:LeadingScheduler`::

            app.conf.lockfast_beat = client.election("beat", ttl=10)
    """

    _candidacy: Candidacy | None = None

    def tick(self, *args: Any, **kwargs: Any) -> float:  # noqa: ANN401  # Celery's
        """Send the tasks that are due, if this beat leads. Return the seconds to the next tick."""
        if self._candidacy is None:  # not in __init__: Celery also makes schedulers to print them
            self._candidacy = self._election.run(self._gained, self._lost)
            self._candidacy.start()
        lease = self._candidacy.lease
        if lease is not None and lease.remaining > 0.0:
            return min(super().tick(*args, **kwargs), LOOK)
        try:
            self._follow()
        except EngineError as error:
            log.warning("nobody can tell who leads %r: %s", self._election.name, error)
        return LOOK

    @property
    def _election(self) -> Election:
        election = self.app.conf.get("lockfast_beat")
        if not isinstance(election, Election):
            raise TypeError(
                "app.conf.lockfast_beat is the election of beats: client.election('beat', ttl=10)"
            )
        return election

    def _follow(self) -> None:
        """Mark entries as sent that were due when the leader last renewed its lease."""
        leader = self._election.leader()
        if leader is None:
            return
        ago = timedelta(seconds=max(self._election.ttl - leader.left, 0.0))
        for name, entry in self.schedule.items():
            if entry.schedule is None or entry.last_run_at is None:
                continue  # not an entry of Celery's own scheduler
            if entry.schedule.remaining_estimate(entry.last_run_at) <= -ago:
                self.schedule[name] = entry.next(last_run_at=entry.default_now() - ago)
                self._heap = None  # it was built from the old entries, and must be built again

    @staticmethod
    def _gained(lease: Lease) -> None:
        log.info("this beat leads, with term %d", lease.token)

    @staticmethod
    def _lost() -> None:
        log.info("this beat no longer leads")

    def close(self) -> None:
        """Resign, so that the next leader need not wait until the ttl is over."""
        if self._candidacy is not None:
            self._candidacy.withdraw()
        super().close()
