"""A beat that leads: of all that were started, one sends; the others keep up with it."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from celery.beat import PersistentScheduler

from lockfast.blocking.client import Candidacy, Election, Lease
from lockfast.errors import EngineError

log = logging.getLogger("lockfast")
LOOK = 1.0  # seconds between two looks of one that does not lead


class LeadingScheduler(PersistentScheduler):
    """Celery's own scheduler, which sends only while it leads `app.conf.lockfast_beat`.

    Each beat has a schedule file of its own, so one that follows keeps its own up to date: an entry
    counts as sent once its time has come and somebody was seen to lead after that. What came due
    when nobody led any more is sent by whoever leads next.
    """

    _candidacy: Candidacy | None = None

    def tick(self, *args: Any, **kwargs: Any) -> float:  # noqa: ANN401  # Celery's
        """Send what is due, if this one leads; give the seconds until the next tick."""
        if self._candidacy is None:  # not before: Celery makes schedulers to print their names too
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
        """Take as sent what was due when the leader was last seen alive."""
        leader = self._election.leader()
        if leader is None:
            return
        ago = timedelta(seconds=max(self._election.ttl - leader.left, 0.0))
        for name, entry in self.schedule.items():
            if entry.schedule is None or entry.last_run_at is None:
                continue  # none of Celery's own
            if entry.schedule.remaining_estimate(entry.last_run_at) <= -ago:
                self.schedule[name] = entry.next(last_run_at=entry.default_now() - ago)
                self._heap = None  # made of the entries as they were

    @staticmethod
    def _gained(lease: Lease) -> None:
        log.info("this beat leads, with term %d", lease.token)

    @staticmethod
    def _lost() -> None:
        log.info("this beat no longer leads")

    def close(self) -> None:
        """Resign, so that the next one need not wait for a ttl."""
        if self._candidacy is not None:
            self._candidacy.withdraw()
        super().close()
