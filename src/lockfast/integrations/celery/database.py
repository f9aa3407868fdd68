"""A scheduler for `celery beat` with django-celery-beat: of several beats, only the leader sends.

Import it in a Django project: django-celery-beat's models need the settings.
"""

from __future__ import annotations

from typing import Any

from django.db import connections, router, transaction
from django.db.models import Q
from django_celery_beat.schedulers import DatabaseScheduler, ModelEntry

from lockfast.blocking.client import Lease
from lockfast.integrations.celery.leading import Leading


class LeadingEntry(ModelEntry):  # type: ignore[misc]  # django-celery-beat ships no types
    """An entry whose time of the last run in the database only increases."""

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


class LeadingDatabaseScheduler(Leading, DatabaseScheduler):  # type: ignore[misc]  # no types, again
    """The scheduler of django-celery-beat, which sends only while it leads `conf.lockfast_beat`.

    The database has the schedule and the time at which each entry was last sent. A beat that
    becomes the leader reads them, and continues where the last leader stopped.
    """

    Entry = LeadingEntry
    _term = 0

    def _lead(self, lease: Lease) -> None:
        """Read the schedule at the beginning of a term: others have sent entries since."""
        if lease.token == self._term:
            return
        connections.close_all()  # a beat may have waited for days, and its connections have died
        self._initial_read = True
        self._heap = None
        self._term = lease.token

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
            for field in known.save_fields:
                setattr(known.model, field, getattr(planned.model, field))
            known.last_run_at = planned.last_run_at
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
