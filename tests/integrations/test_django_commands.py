"""Django: commands of which one runs at a time, in real processes on a real database."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import psycopg
import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

import lockfast
import tests.guards.registers.django  # noqa: F401  # a process has one project, and that is it
from lockfast import LeaseLost, NotAcquired
from lockfast.integrations.django import Locked
from lockfast.integrations.django.management.commands import locked_migrate
from lockfast.testing.lab import Lab
from tests.integrations.migrating import Place, place
from tests.servers import Postgres


@pytest.fixture(scope="module")
def project() -> Iterator[Place]:
    with place("django") as project:
        yield project


@pytest.fixture
def client(project: Place) -> Iterator[lockfast.Client]:
    with (
        lockfast.connect(project.redis.url) as client,
        override_settings(LOCKFAST_URL=project.redis.url),
    ):
        yield client


def rows(server: Postgres, query: str) -> list[tuple[Any, ...]]:
    """Ask the project's own database."""
    with psycopg.connect(server.url.removesuffix("postgres") + "app") as connection:
        return connection.execute(query.encode()).fetchall()


class Chore(Locked):
    """Does nothing, under a lock."""

    lock = "chore"
    on_busy: ClassVar[Literal["wait", "raise", "skip"]] = "raise"

    def handle(self, **_: object) -> str:
        return str(self.lease.token)


class Inner(Chore):
    """Does not get a lock of its own."""

    lock = "outer"
    on_busy: ClassVar[Literal["wait", "raise", "skip"]] = "skip"

    def handle(self, **_: object) -> str:
        raise NotAcquired("inner", 0.0, "somebody")


class Misspelt(Chore):
    """Names its lock after an option that it does not have."""

    lock = "import:{tenant}"


class Nameless(Locked):
    """Names no lock."""


def test_a_lock_named_after_an_option_that_is_missing_says_so_and_is_no_key_error() -> None:
    with pytest.raises(
        CommandError, match=r"import:\{tenant\}.* 'tenant'.* options are .*verbosity"
    ):
        call_command(Misspelt())


def test_a_command_without_the_name_of_a_lock_says_what_to_write() -> None:
    with pytest.raises(CommandError, match=r'Nameless.*lock = "'):
        call_command(Nameless())


def test_three_that_migrate_at_once_are_one_that_migrates_and_two_that_find_it_done(
    project: Place,
) -> None:
    said = project.all_at_once("migrate:default", "manage.py", "locked_migrate")
    assert sorted(text.count("Applying shop.0001_initial... OK") for text in said) == [0, 0, 1]
    assert sorted(text.count("No migrations to apply") for text in said) == [0, 1, 1]


def test_of_three_that_were_started_at_once_one_runs_and_the_others_say_who(
    project: Place,
) -> None:
    project.ended([project.start("manage.py", "locked_migrate")])
    said = project.ended([project.start("manage.py", "bill", "acme") for _ in range(3)])
    skipped = sorted(text.count("Skipped: 'bill:acme' is held by manage.py") for text in said)
    assert skipped == [0, 1, 1]
    ((tenant, token),) = rows(project.postgres, "SELECT tenant, token FROM shop_bill")
    assert tenant == "acme"
    assert token > 0


def test_a_command_that_must_not_be_skipped_fails_and_says_who(client: lockfast.Client) -> None:
    with (
        client.lock("chore", purpose="by hand"),
        pytest.raises(CommandError, match=r"held by .*\(by hand\)"),
    ):
        call_command(Chore())
    assert int(call_command(Chore())) > 0


@pytest.mark.usefixtures("client")
def test_a_lock_that_the_command_itself_did_not_get_is_its_own_failure() -> None:
    with pytest.raises(NotAcquired, match="inner"):
        call_command(Inner())


def test_after_a_loss_no_further_migration_begins(lockfast_lab: Lab) -> None:
    command = locked_migrate.Command()
    command.verbosity = 0
    command.lease = lockfast_lab.client.lock("migrate:default").acquire()
    command.migration_progress_callback("render_start")
    lockfast_lab.lose(command.lease)
    with pytest.raises(LeaseLost):
        command.migration_progress_callback("apply_start")
