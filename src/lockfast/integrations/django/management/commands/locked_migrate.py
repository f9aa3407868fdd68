"""`manage.py locked_migrate`: Django's `migrate`, one at a time; the next finds nothing to do."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate

from lockfast.integrations.django.locked import Locked


class Command(Locked, migrate.Command):
    """Its name is its own: `migrate` itself also runs in tests, where there is no engine."""

    lock = "migrate:{database}"
    on_busy = "wait"

    def migration_progress_callback(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # Django's
        """Begin no further migration once the lease is lost."""
        self.lease.ensure_held()
        super().migration_progress_callback(*args, **kwargs)
