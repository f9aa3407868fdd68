"""A beat as people have it by accident: started twice, and both send. Every second a report."""

from __future__ import annotations

from celery.beat import PersistentScheduler


class Doubled(PersistentScheduler):
    """Celery's own, for a task that is made to run once."""

    def setup_schedule(self) -> None:
        """Replace the example's schedule."""
        self.app.conf.beat_schedule = {
            "report": {"task": "tasks.report", "schedule": 1.0, "args": ("doubled",)}
        }
        super().setup_schedule()
