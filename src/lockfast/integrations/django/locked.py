"""A base class for management commands that run once at a time across all machines."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from lockfast.blocking.client import Lease, connect
from lockfast.errors import NotAcquired
from lockfast.primitives.lock import patience


class Locked(BaseCommand):
    """A management command whose `execute` holds a lock.

    Use it as a base class, or as a mixin in front of another command. The engine is at
    `settings.LOCKFAST_URL`, or at LOCKFAST_URL of the environment.

    Example:
        ::

            class Command(Locked):
                lock = "import:{tenant}"

                def add_arguments(self, parser):
                    parser.add_argument("tenant")

                def handle(self, *args, **options):
                    print("importing with token", self.lease.token)
    """

    lock: ClassVar[str]
    """The name of the lock, filled from the command's options: `"import:{tenant}"`."""
    ttl: ClassVar[float] = 30.0
    """How long, in seconds, the lock stays taken after a process crashes. See `Client.lock`."""
    timeout: ClassVar[float | None] = None
    """How many seconds to wait for the lock. See `Client.lock`."""
    at_least: ClassVar[float] = 0.0
    """Seconds for which the lock stays taken even if the command ends sooner."""
    on_busy: ClassVar[Literal["wait", "raise", "skip"]] = "skip"
    """What to do if the lock is held after the timeout. `"skip"` writes a message to stderr and
    succeeds. `"wait"` and `"raise"` raise `CommandError`. Without a timeout, `"wait"` waits for
    ever, and the others take effect immediately."""

    lease: Lease
    """The lease, while the command runs: `self.lease.token`, `self.lease.ensure_held()`."""

    def execute(self, *args: Any, **options: Any) -> str | None:  # noqa: ANN401  # Django's
        """Acquire the lock, and run the command. If the lock is busy, do what `on_busy` says."""
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
                    raise  # the command itself has failed to acquire another lock
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
