"""A management command of which one runs at a time, on all machines."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from lockfast.blocking.client import Lease, connect
from lockfast.errors import NotAcquired
from lockfast.primitives.lock import patience


class Locked(BaseCommand):
    """A base, or a mixin in front of another command: `execute` runs under a lock.

    The engine is at `settings.LOCKFAST_URL`, or at LOCKFAST_URL of the environment.
    """

    lock: ClassVar[str]
    """The name, filled from the options: `"import:{tenant}"`."""
    ttl: ClassVar[float] = 30.0
    timeout: ClassVar[float | None] = None
    at_least: ClassVar[float] = 0.0
    on_busy: ClassVar[Literal["wait", "raise", "skip"]] = "skip"
    """As for `Client.lock`: "skip" says so and succeeds, "raise" is a CommandError."""

    lease: Lease
    """While it runs: `self.lease.token`, `self.lease.ensure_held()`."""

    def execute(self, *args: Any, **options: Any) -> str | None:  # noqa: ANN401  # Django's
        """Run it, when nobody else does."""
        name = self._name(options)
        inside = False
        with connect(getattr(settings, "LOCKFAST_URL", None)) as client:
            lock = client.lock(
                name,
                ttl=self.ttl,
                timeout=patience(self.on_busy, self.timeout),
                at_least=self.at_least,
            )
            try:
                with lock as self.lease:
                    inside = True
                    return super().execute(*args, **options)
            except NotAcquired as busy:
                if inside:
                    raise  # of a lock that the command itself did not get
                if self.on_busy == "skip":
                    self.stderr.write(f"Skipped: {busy.name!r} is held by {busy.holder}.")
                    return None
                raise CommandError(str(busy)) from busy

    def _name(self, options: dict[str, Any]) -> str:
        command = f"{type(self).__module__}.{type(self).__qualname__}"
        template = getattr(self, "lock", None)
        if template is None:
            raise CommandError(
                f'{command} names no lock. Write lock = "import:{{tenant}}" into it.'
            )
        try:
            return str(template).format_map(options)
        except (KeyError, IndexError, AttributeError, ValueError) as error:
            raise CommandError(
                f"The lock name {template!r} of {command} cannot be filled: {error}. "
                f"The command's options are {', '.join(sorted(options))}."
            ) from error
