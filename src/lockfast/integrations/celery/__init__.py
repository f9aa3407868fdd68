"""Celery: run a task once although its message was delivered twice, and run several beats."""

from lockfast.integrations.celery.beat import LeadingScheduler
from lockfast.integrations.celery.once import once

__all__ = ["LeadingScheduler", "once"]
