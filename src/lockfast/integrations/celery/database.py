"""A scheduler for `celery beat` with django-celery-beat: of several beats, only the leader sends.

Import it in a Django project: django-celery-beat's models need the settings.
"""

from __future__ import annotations

import logging
from typing import Any

from django.db import DatabaseError, InterfaceError, connections, router, transaction
from django.db.models import Q
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from lockfast.blocking.client import Lease
from lockfast.integrations.celery.leading import Leading

log = logging.getLogger("lockfast")


class LeadingEntry(ModelEntry):  # type: ignore[misc]  # django-celery-beat ships no types
    """An entry whose time of the last run in the database only increases."""

    stored: Any = None
    """The time of the last run that `save` has stored, or found a later one."""

    def save(self) -> None:
        """Store that the entry was sent, unless another beat has stored a later time.

        A beat that was paused between sending and saving may have been replaced meanwhile. If it
        put its older time back, the leader would send again what it has already sent.
        """
        model, sent = type(self.model), self.model.last_run_at
        using = router.db_for_write(model)
        rows = model._default_manager.using(using).filter(pk=self.model.pk)  # noqa: SLF001  # Django's name for it
        earlier = Q(last_run_at=None) | Q(last_run_at__lt=sent)
        with transaction.atomic(using):
            if rows.filter(earlier).update(last_run_at=sent):  # locks the row until the commit
                super().save()
        self.stored = sent


class LeadingDatabaseScheduler(Leading, DatabaseScheduler):  # type: ignore[misc]  # no types, again
    """The scheduler of django-celery-beat, which sends only while it leads `conf.lockfast_beat`.

    The database has the schedule and the time at which each entry was last sent. A beat that
    becomes the leader reads them, and continues where the last leader stopped.
    """

    Entry = LeadingEntry
    _term = 0

    def _lead(self, lease: Lease) -> bool:
        """Read the schedule at the beginning of a term: others have sent entries since.

        While the database is down, send nothing. The schedule that this beat read when it started
        may be days old, and all its entries would look due.
        """
        if lease.token == self._term:
            return True
        connections.close_all()  # a beat may have waited for days, and its connections have died
        self._initial_read = True
        self._heap = None
        try:
            self.schedule  # noqa: B018  # this property reads the database
        except (DatabaseError, InterfaceError) as error:
            log.warning("this beat is the leader, but cannot read the schedule: %s", error)
            return False
        self._term = lease.token
        return True

    def all_as_schedule(self) -> dict[str, Any]:
        """Read the schedule. Keep what this beat has sent and could not store yet."""
        read: dict[str, Any] = super().all_as_schedule()
        for name in self._dirty & read.keys() & (self._schedule or {}).keys():
            if self._schedule[name].last_run_at > read[name].last_run_at:
                _copy(self._schedule[name], read[name])
        return read

    def sync(self) -> None:
        """Store what was sent, and try again later what could not be stored.

        django-celery-beat forgets an entry if the database fails. It would send it again when it
        reads the schedule the next time, or let the next leader do so.
        """
        sent = set(self._dirty)
        super().sync()
        known = self._schedule or {}
        self._dirty |= {
            name
            for name in sent & known.keys()
            if known[name].stored != known[name].model.last_run_at
        }

    def reserve(self, entry: Any) -> Any:  # noqa: ANN401  # a LeadingEntry: Celery's stubs differ
        """Plan the entry's next run, also in the schedule from which the heap may be built again.

        django-celery-beat reads the schedule again when it has changed, and builds the heap at the
        tick after that. Without this, the new heap would have the entry as it was before it was
        sent, and send it once more.
        """
        planned: Any = super().reserve(entry)
        self._dirty.discard(planned.name)  # not before it was sent: see `apply_entry`
        known: Any = self._schedule.get(planned.name)
        if known is not None:
            _copy(planned, known)
        return planned

    def apply_entry(self, entry: Any, producer: Any = None) -> None:  # noqa: ANN401  # Celery's
        """Send the entry, then store that it was sent.

        Celery would store it up to three minutes later: if the leader were killed before that, the
        next one would send the entry again. And its handler of SIGTERM stores what is planned: a
        beat that was stopped just before it sent the entry would store that it did.
        """
        super().apply_entry(entry, producer=producer)
        self._dirty.add(entry.name)
        self.sync()


def _copy(source: Any, target: Any) -> None:  # noqa: ANN401  # two LeadingEntries
    """Let an entry have run when another one did."""
    for field in target.save_fields:
        setattr(target.model, field, getattr(source.model, field))
    target.last_run_at = source.last_run_at
