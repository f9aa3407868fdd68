"""Python takes ShedLock's row as the page shows, and a Java side sees and respects it.

ShedLock itself needs a registry that the tests do not have. `Java` does what its source does.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from lockfast.engines.postgres import install
from tests.migration.page import programs
from tests.migration.worker import Worker
from tests.servers import Postgres, wait_until

OURS = "ShedLock's row in Python"


class Java:
    """A node with ShedLock's JDBC provider and `usingDbTime()`, called `java-1`."""

    def __init__(self, session: psycopg.Connection[Any], name: str) -> None:
        self._session = session
        self._name = name

    def lock(self, at_most: float = 600.0) -> bool:
        """Insert the row, or take it over if its time has passed."""
        until = "timezone('utc', now()) + make_interval(secs => %s)"
        made = self._session.execute(
            f"INSERT INTO shedlock VALUES (%s, {until}, timezone('utc', now()), 'java-1')"  # noqa: S608
            " ON CONFLICT DO NOTHING",
            (self._name, at_most),
        )
        taken = self._session.execute(
            f"UPDATE shedlock SET lock_until = {until}, locked_at = timezone('utc', now()),"  # noqa: S608
            " locked_by = 'java-1' WHERE name = %s AND lock_until <= timezone('utc', now())",
            (at_most, self._name),
        )
        return made.rowcount + taken.rowcount == 1

    def unlock(self) -> bool:
        """End its time, if the row is still this node's."""
        freed = self._session.execute(
            "UPDATE shedlock SET lock_until = timezone('utc', now())"
            " WHERE name = %s AND locked_by = 'java-1'",
            (self._name,),
        )
        return freed.rowcount == 1


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        server.command("CREATE DATABASE app")
        install(_url(server))
        yield server


def _url(server: Postgres) -> str:
    return server.url.removesuffix("/postgres") + "/app"


@pytest.fixture
def session(server: Postgres, code: dict[str, str]) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(_url(server), autocommit=True) as session:
        exec(code[OURS], {})  # noqa: S102  # it makes the table
        yield session


@pytest.fixture
def code(server: Postgres, request: pytest.FixtureRequest) -> dict[str, str]:
    """Return the page's programs, with a lock of their own: at_least keeps it for a while."""
    url = {"postgresql://localhost/app": _url(server), '"invoices"': f'"{request.node.name[:64]}"'}
    found = programs("shedlock.md", url)
    return {**found, "Deploy 1": found[OURS] + found["Deploy 1"]}


@pytest.fixture
def java(session: psycopg.Connection[Any], request: pytest.FixtureRequest) -> Java:
    return Java(session, request.node.name[:64])


def test_deploy_1_skips_while_java_works(java: Java, code: dict[str, str], tmp_path: Path) -> None:
    assert java.lock()
    with Worker(code["Deploy 1"], tmp_path) as worker:
        assert worker.skips()
    assert java.unlock()


def test_java_skips_while_deploy_1_works(java: Java, code: dict[str, str], tmp_path: Path) -> None:
    quick = code["Deploy 1"].replace("at_least=5", "at_least=0")
    with Worker(quick, tmp_path) as worker:
        worker.wait_works()
        assert not java.lock()
        assert not java.unlock()
        worker.finish()
    assert java.lock()


def test_a_short_run_keeps_the_row_for_at_least(
    java: Java, session: psycopg.Connection[Any], code: dict[str, str], tmp_path: Path
) -> None:
    with Worker(code["Deploy 1"], tmp_path) as worker:
        worker.wait_works()
        worker.finish()
    (kept,) = session.execute(
        "SELECT lock_until >= locked_at + interval '5 seconds' FROM shedlock"
        " ORDER BY locked_at DESC LIMIT 1"
    ).fetchone() or (None,)
    assert kept
    wait_until(java.lock, "Java takes the row when at_least is over", 30.0)


@pytest.mark.usefixtures("session")  # for the table
@pytest.mark.parametrize(("first", "second"), [("Deploy 1", "After"), ("After", "Deploy 1")])
def test_the_second_skips_while_the_first_works(
    code: dict[str, str], first: str, second: str, tmp_path: Path
) -> None:
    with Worker(code[first], tmp_path) as one:
        one.wait_works()
        with Worker(code[second], tmp_path) as two:
            assert two.skips()
        one.finish()


def test_a_row_whose_time_has_passed_is_free_and_its_old_holder_does_not_free_it(
    java: Java, session: psycopg.Connection[Any], code: dict[str, str]
) -> None:
    names: dict[str, Any] = {}
    exec(code[OURS], names)  # noqa: S102  # the page's function
    name, url = java._name, code["Set up lockfast"].split('"')[1]
    with names["shedlock"](url, name, at_most=0.1) as taken:
        assert taken
        wait_until(java.lock, "the row's time has passed")
    held = "SELECT lock_until > timezone('utc', now()) FROM shedlock WHERE name = %s"
    assert session.execute(held, (name,)).fetchone() == (True,)
    with names["shedlock"](url, name, at_most=1) as taken:
        assert not taken
    assert java.unlock()
    with names["shedlock"](url, name, at_most=1) as taken:
        assert taken
