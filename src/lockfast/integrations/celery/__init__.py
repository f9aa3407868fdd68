"""Celery: a task that runs once however often its message came, and a beat that leads."""

from lockfast.integrations.celery.beat import LeadingScheduler
from lockfast.integrations.celery.once import once

__all__ = ["LeadingScheduler", "once"]
