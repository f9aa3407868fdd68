"""One row in PostgreSQL, behind Django's models, in a project that is no more than this file."""

from __future__ import annotations

from urllib.parse import urlsplit

import django
from django.conf import settings
from django.db import connections, models

from lockfast.guards.django import Fenced, guarded, seal
from lockfast.primitives.lease import LeaseCore

if not settings.configured:
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.postgresql"}},
        INSTALLED_APPS=["django_celery_beat"],  # for the tests of beats
        USE_TZ=True,
    )
    django.setup()


def configure(where: str) -> None:
    """Tell Django where the database is."""
    parts = urlsplit(where)
    connections.close_all()
    connections.settings["default"].update(
        NAME=parts.path[1:], USER=parts.username, HOST=parts.hostname, PORT=parts.port
    )


class Row(models.Model):  # noqa: DJ008  # nobody looks at it
    """The row of the story."""

    id: models.IntegerField[int, int] = models.IntegerField(primary_key=True)
    value: models.TextField[str, str] = models.TextField()

    class Meta:
        app_label = "lockfast_tests"
        db_table = "register"


class Invoice(Fenced, models.Model):  # noqa: DJ008  # nobody looks at it
    """A row with a lock of its own."""

    fence = "invoice:{pk}"
    id: models.IntegerField[int, int] = models.IntegerField(primary_key=True)
    paid: models.BooleanField[bool, bool] = models.BooleanField(default=False)

    class Meta:
        app_label = "lockfast_tests"
        db_table = "invoice"


class Model:
    """Guarded, through a model."""

    def __init__(self, where: str) -> None:
        configure(where)

    def seal(self, lease: LeaseCore) -> None:
        seal(lease)

    def read(self, lease: LeaseCore) -> str:  # noqa: ARG002  # the story's
        return str(Row.objects.get(pk=1).value)

    def write(self, lease: LeaseCore, value: str) -> None:
        with guarded(lease):
            row = Row.objects.get(pk=1)
            row.value = value
            row.save()

    def write_bare(self, lease: LeaseCore, value: str) -> None:  # noqa: ARG002  # the story's
        Row.objects.filter(pk=1).update(value=value)

    def close(self) -> None:
        connections.close_all()
