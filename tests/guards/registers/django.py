"""One row in PostgreSQL or MariaDB, behind Django's models, in a project of this file alone."""

from __future__ import annotations

from urllib.parse import urlsplit

import django
import pymysql
from django.conf import settings
from django.db import connections, models

from lockfast.guards.django import Fenced, guarded, seal
from lockfast.primitives.lease import LeaseCore

MARIADB = "mariadb"

if not settings.configured:
    pymysql.install_as_MySQLdb()  # instead of mysqlclient
    settings.configure(
        DATABASES={
            "default": {"ENGINE": "django.db.backends.postgresql"},
            MARIADB: {"ENGINE": "django.db.backends.mysql"},
        },
        INSTALLED_APPS=["django_celery_beat"],  # for the tests of beats
        USE_TZ=True,
    )
    django.setup()


def configure(where: str) -> None:
    """Tell Django where the database is."""
    parts = urlsplit(where)
    connections.close_all()
    mysql = parts.scheme == "mysql"
    connections.settings[MARIADB if mysql else "default"].update(
        NAME="app" if mysql else parts.path[1:],
        USER=parts.username,
        PASSWORD=parts.password or "",
        HOST=parts.hostname,
        PORT=parts.port,
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

    using = "default"

    def __init__(self, where: str) -> None:
        configure(where)

    def seal(self, lease: LeaseCore) -> None:
        seal(lease, using=self.using)

    def read(self, lease: LeaseCore) -> str:  # noqa: ARG002  # the story's
        return str(Row.objects.using(self.using).get(pk=1).value)

    def write(self, lease: LeaseCore, value: str) -> None:
        with guarded(lease, using=self.using):
            row = Row.objects.using(self.using).get(pk=1)
            row.value = value
            row.save()

    def write_bare(self, lease: LeaseCore, value: str) -> None:  # noqa: ARG002  # the story's
        Row.objects.using(self.using).filter(pk=1).update(value=value)

    def close(self) -> None:
        connections.close_all()


class MariaModel(Model):
    """The same on MariaDB."""

    using = MARIADB
