"""A scheduler for `celery beat` with a schedule file: of several beats, only the leader sends."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from celery.beat import PersistentScheduler

from lockfast.integrations.celery.leading import LOOK, Leading

SENDING = 5.0  # seconds that a leader may take to send the entries that came due at one time


class LeadingScheduler(Leading, PersistentScheduler):
    """Celery's own scheduler, which sends tasks only while it leads `app.conf.lockfast_beat`.

    Each beat has a schedule file of its own, so the followers keep theirs up to date. An entry
    counts as sent if it was due and a leader was alive 5 seconds after that. The next leader sends
    the other entries that are due. It may send an entry again that the last one has just sent.

    Example:
        Name the election in the configuration, and start each beat with
        `celery beat -S lockfast.integrations.celery:LeadingScheduler`::

            app.conf.lockfast_beat = client.election("beat", ttl=10)
    """

    _planned: Any = None

    def tick(self, *args: Any, **kwargs: Any) -> float:  # noqa: ANN401  # Celery's
        """Send the tasks that are due, if this beat leads. Return the seconds to the next tick."""
        return min(super().tick(*args, **kwargs), LOOK)

    def _follow(self) -> None:
        """Mark entries as sent that came due well before the leader last renewed its lease.

        A leader renews its lease while it sends. With many entries, or a slow broker, it may be
        alive when an entry comes due, and be killed before it sends it.
        """
        leader = self._election.leader()
        if leader is None:
            return
        ago = timedelta(seconds=max(self._election.ttl - leader.left, 0.0) + SENDING)
        for name, entry in self.schedule.items():
            if entry.schedule is None or entry.last_run_at is None:
                continue  # not an entry of Celery's own scheduler
            if entry.schedule.remaining_estimate(entry.last_run_at) <= -ago:
                self.schedule[name] = entry.next(last_run_at=entry.default_now() - ago)
                self._heap = None  # it was built from the old entries, and must be built again

    def reserve(self, entry: Any) -> Any:  # noqa: ANN401  # a ScheduleEntry: Celery's stubs differ
        """Plan the entry's next run, and leave the schedule as it is until the entry was sent.

        Celery's handler of SIGTERM stores the schedule. A beat that was stopped before it sent the
        entry would store that it did, and not send it after its next start.
        """
        self._planned = next(entry)
        return self._planned

    def apply_entry(self, entry: Any, producer: Any = None) -> None:  # noqa: ANN401  # Celery's
        """Send the entry, then note that it was sent."""
        super().apply_entry(entry, producer=producer)
        self.schedule[entry.name] = self._planned
