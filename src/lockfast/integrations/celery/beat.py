"""A scheduler for `celery beat` with a schedule file: of several beats, only the leader sends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from celery.beat import PersistentScheduler

from lockfast.integrations.celery.leading import LOOK, Leading


class LeadingScheduler(Leading, PersistentScheduler):
    """Celery's own scheduler, which sends tasks only while it leads `app.conf.lockfast_beat`.

    Each beat has a schedule file of its own, so the followers keep theirs up to date. An entry
    counts as sent if it was due and a leader was seen alive after that. The next leader sends the
    entries that came due when there was no leader.

    Example:
        Name the election in the configuration, and start each beat with
        `celery beat -S lockfast.integrations.celery:LeadingScheduler`::

            app.conf.lockfast_beat = client.election("beat", ttl=10)
    """

    def tick(self, *args: Any, **kwargs: Any) -> float:  # noqa: ANN401  # Celery's
        """Send the tasks that are due, if this beat leads. Return the seconds to the next tick."""
        return min(super().tick(*args, **kwargs), LOOK)

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
