"""`manage.py locked_migrate`: Django's `migrate` under a lock, so that one process migrates."""

from __future__ import annotations

from typing import Any

from django.core.management.commands import migrate

from lockfast.integrations.django.locked import Locked


class Command(Locked, migrate.Command):
    """Run `migrate` under a lock. A process that has waited then finds nothing left to migrate.

    It does not replace `migrate`, which also runs in tests, where there is no engine.
    """

    lock = "migrate:{database}"
    on_busy = "wait"

    def migration_progress_callback(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401  # Django's
        """Begin no further migration once the lease is lost."""
        self.lease.ensure_held()
        super().migration_progress_callback(*args, **kwargs)
