"""Alembic: one of several processes migrates, and one that lost its lease commits nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from alembic import context
from alembic.config import Config
from alembic.runtime.environment import EnvironmentContext
from alembic.script import ScriptDirectory
from sqlalchemy import Engine, create_engine, inspect, pool

from lockfast import Lease, LeaseLost
from lockfast.integrations.alembic import locked
from lockfast.testing.lab import Lab
from tests.integrations.migrating import Place, place


@pytest.fixture(scope="module")
def project() -> Iterator[Place]:
    with place("alembic") as project:
        yield project


def database(project: Place, name: str) -> Engine:
    url = project.postgres.url.replace("postgresql:", "postgresql+psycopg:")
    return create_engine(url.removesuffix("/postgres") + f"/{name}", poolclass=pool.NullPool)


def upgrade(
    project: Place, engine: Engine, lab: Lab, before: Callable[[Lease], object], **options: object
) -> None:
    """Do what env.py does, in this process: `before` has the lease before the migrations run."""
    scripts = ScriptDirectory.from_config(Config(str(project.home / "alembic.ini")))
    environment = EnvironmentContext(
        Config(), scripts, fn=lambda revision, _: scripts._upgrade_revs("head", revision)
    )
    lock = lab.client.lock("migrate:app")
    with environment, locked(lock, engine, **options) as lease:
        before(lease)
        context.run_migrations()


def test_three_that_migrate_at_once_are_one_that_migrates_and_two_that_find_it_done(
    project: Place,
) -> None:
    project.all_at_once("migrate:app", "-m", "alembic", "upgrade", "head")
    tables = inspect(database(project, "app")).get_table_names()
    assert sorted(tables) == ["alembic_version", "bill"]


def test_what_was_migrated_without_the_lease_is_not_committed(
    project: Place, lockfast_lab: Lab
) -> None:
    project.postgres.command("CREATE DATABASE lost")
    engine = database(project, "lost")
    with pytest.raises(LeaseLost):
        upgrade(project, engine, lockfast_lab, lockfast_lab.lose)
    assert inspect(engine).get_table_names() == []


def test_callbacks_of_the_users_own_are_called_too(project: Place, lockfast_lab: Lab) -> None:
    project.postgres.command("CREATE DATABASE kept")
    engine, told = database(project, "kept"), []

    def tell(**said: object) -> None:
        told.append(said["heads"])

    upgrade(project, engine, lockfast_lab, id, on_version_apply=tell)
    assert told == [{"first"}]
    assert "bill" in inspect(engine).get_table_names()
