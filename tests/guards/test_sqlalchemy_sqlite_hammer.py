"""Eight processes and one row, locks and data in SQLite: no acknowledged increment is lost."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session

from lockfast.guards import sqlalchemy as guard
from lockfast.primitives.lease import LeaseCore
from tests.guards.hammer import Plan, hammer
from tests.guards.registers.sqlalchemy import Base, Mapper, Row


class Increments(Mapper):
    """The row of the story, as the hammer wants it."""

    broken: ClassVar[tuple[type[Exception], ...]] = (DBAPIError,)


class Bare(Increments):
    """The same without the guard."""

    def seal(self, lease: LeaseCore) -> None:
        """Nothing is there to be sealed."""

    def write(self, lease: LeaseCore, value: str) -> None:
        self.write_bare(lease, value)


@pytest.fixture
def where(tmp_path: Path) -> str:
    where = f"sqlite:///{tmp_path}/data.db"
    engine = create_engine(where)
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        guard.install(connection)
    with Session(engine) as session, session.begin():
        session.execute(text("PRAGMA journal_mode = WAL"))
        session.add(Row(id=1, value="0 start"))
    engine.dispose()
    return where


def plan(tmp_path: Path, refusals: int) -> Plan:
    folder = tmp_path / "logs"
    folder.mkdir()
    return Plan(str(folder), increments=1500, processes=8, batch=20, refusals=refusals)


@pytest.mark.timeout(200)
def test_every_acknowledged_increment_is_there_and_no_stale_one_is(
    tmp_path: Path, where: str
) -> None:
    report = hammer(f"sqlite:///{tmp_path}/locks.db", Increments, where, plan(tmp_path, 15))
    print(report)  # noqa: T201  # figures
    assert report.missing == []
    assert report.stale == []
    assert report.acknowledged >= 1500
    assert report.value == report.acknowledged + report.unknown_applied
    assert report.refused >= 5


@pytest.mark.timeout(200)
def test_without_the_guard_increments_are_lost(tmp_path: Path, where: str) -> None:
    report = hammer(f"sqlite:///{tmp_path}/locks.db", Bare, where, plan(tmp_path, 0))
    assert report.missing
    assert report.value < report.acknowledged
