"""What the page on the PostgreSQL guard tells people to grant is enough, and no more is needed."""

from __future__ import annotations

import re
from pathlib import Path

import psycopg
import pytest

import lockfast
from lockfast import StaleToken
from lockfast.guards.postgres import PostgresGuard
from tests.guards.database import database, usurped

PAGE = Path(__file__).parents[2] / "docs" / "guards" / "postgres.md"


def test_a_user_with_the_documented_privileges_can_write_and_not_delete_marks() -> None:
    grants = re.search(
        r"^(SELECT lockfast_guard\.grant_v1[^;]+);$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    assert grants is not None
    with database() as server, lockfast.connect("memory://") as client:
        server.command("CREATE ROLE app LOGIN")
        server.command("GRANT ALL ON watched, register TO app")
        server.command("SELECT lockfast_guard.protect_v1('watched', 'app')")
        stale, fresh = usurped(client, "app")
        with psycopg.connect(server.url.replace("postgres@", "app@")) as connection:
            guard = PostgresGuard(connection)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                guard.seal(fresh)
            server.command(grants[1])
            guard.seal(fresh)
            with guard.transaction(fresh) as cursor:
                cursor.execute("UPDATE watched SET value = 'app'")
            with pytest.raises(StaleToken):
                guard.seal(stale)
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("DELETE FROM lockfast_guard.mark")
            connection.rollback()
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("UPDATE lockfast_guard.mark SET token = 1")
