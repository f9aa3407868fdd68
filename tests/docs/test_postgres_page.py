"""What the page on PostgreSQL tells people to configure is enough."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

import lockfast
from lockfast import EngineRefused
from lockfast.engines.postgres import install
from tests.docs.rights import do_everything
from tests.servers import Postgres

PAGE = Path(__file__).parents[2] / "docs" / "engines" / "postgres.md"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as server:
        install(server.url)
        yield server


def documented_grants() -> str:
    """Read the statement that gives a role its rights."""
    found = re.search(r"^(SELECT lockfast\.grant_v2[^;]+);$", PAGE.read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


def test_a_user_with_the_documented_privileges_can_do_everything(server: Postgres) -> None:
    server.command("CREATE ROLE app LOGIN")
    url = server.url.replace("postgres@", "app@")
    with (
        lockfast.connect(url) as client,
        pytest.raises(EngineRefused, match=r"permission denied .*grant_v2\('ROLE'\)"),
    ):
        client.lock("x").acquire(timeout=1)
    server.command(documented_grants())
    do_everything(url)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM lockfast.claim",
        "DELETE FROM lockfast.claim",
        "UPDATE lockfast.bucket SET last = 9007199254740991",
        "DELETE FROM lockfast.tombstone",
        "SELECT lockfast.lock_v1(1)",
    ],
)
def test_a_user_with_the_documented_privileges_can_do_nothing_else(
    server: Postgres, statement: str
) -> None:
    role = f"app{abs(hash(statement))}"
    server.command(f"CREATE ROLE {role} LOGIN")
    server.command(documented_grants().replace("app", role))
    url = server.url.replace("postgres@", f"{role}@")
    with psycopg.connect(url) as connection, pytest.raises(InsufficientPrivilege):
        connection.execute(statement.encode())


def test_the_token_base_lifts_every_new_token(server: Postgres) -> None:
    base = 2_000_000_000_000_000
    tokens = []
    for url in (server.url, f"{server.url}?token_base={base}", server.url):
        with lockfast.connect(url) as client, client.lock("moved") as lease:
            tokens.append(lease.token)
    assert tokens == sorted(set(tokens))
    assert tokens[1] >= base


def test_an_option_that_nobody_knows_is_refused(server: Postgres) -> None:
    with pytest.raises(ValueError, match="has no option sslmod"):
        lockfast.connect(f"{server.url}?sslmod=require")


def test_a_user_whom_the_server_does_not_know_is_refused_and_not_waited_for(
    server: Postgres,
) -> None:
    url = server.url.replace("postgres@", "nobody@")
    with lockfast.connect(url) as client, pytest.raises(EngineRefused, match="nobody"):
        client.lock("x").acquire(timeout=5)
