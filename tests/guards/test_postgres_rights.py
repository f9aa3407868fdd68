"""What a writer under the PostgreSQL guard can do to the marks of others: raise them, no more."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

import lockfast
from lockfast import StaleToken
from lockfast.guards.postgres import Columns, PostgresGuard, install
from tests.guards.database import database, lease, usurped
from tests.servers import Postgres
from tests.servers.mallory import caught, set_traps, trap

Connection = psycopg.Connection[tuple[Any, ...]]
INVOICES = """
CREATE TABLE invoice (id int PRIMARY KEY, paid bool, fence_token bigint NOT NULL DEFAULT 0,
  fence_id varchar(64) NOT NULL DEFAULT '');
GRANT ALL ON invoice, watched, register TO app
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with database() as server:
        server.command("CREATE ROLE app LOGIN")
        install(server.url, role="app")
        server.command(INVOICES)
        server.command("SELECT lockfast_guard.protect_v1('invoice', 'invoice:{id}')")
        server.command("SELECT lockfast_guard.protect_v1('watched', 'watched')")
        yield server


@pytest.fixture
def app(server: Postgres) -> Iterator[Connection]:
    with psycopg.connect(server.url.replace("postgres@", "app@")) as connection:
        yield connection


def write_everything(connection: Connection, client: lockfast.Client) -> None:
    """Use every form of the guard."""
    guard = PostgresGuard(connection)
    with client.lock("invoice:1", ttl=30) as held:
        guard.seal(held)
        with guard.transaction(held) as cursor:
            cursor.execute("INSERT INTO public.invoice VALUES (1, false)")
        with connection.transaction():
            for setting, text in (("name", held.name), ("token", held.token), ("id", held.id)):
                connection.execute(
                    "SELECT pg_catalog.set_config(%s, %s, true)", [f"lockfast.{setting}", str(text)]
                )
            connection.execute("UPDATE public.invoice SET paid = true")
        with guard.transaction(held) as cursor:
            Columns().update(cursor, held, "public.invoice", {"paid": True}, {"paid": False})
            Columns().update(cursor, held, "public.invoice", {"fence_id": held.id}, {})
            cursor.execute("DELETE FROM public.invoice")
    with client.lock("watched", ttl=30) as held, guard.transaction(held) as cursor:
        cursor.execute("UPDATE public.watched SET value = 'app'")


def test_a_writer_needs_no_right_to_the_marks(app: Connection, client: lockfast.Client) -> None:
    write_everything(app, client)
    stale, fresh = usurped(client, "watched")
    PostgresGuard(app).seal(fresh)
    with pytest.raises(StaleToken), PostgresGuard(app).transaction(stale):
        pytest.fail("it was let in")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE lockfast_guard.mark SET token = 1",
        "DELETE FROM lockfast_guard.mark",
        "TRUNCATE lockfast_guard.mark",
        "INSERT INTO lockfast_guard.mark VALUES ('x', 1, '', '1')",
        "CALL lockfast_guard.admit_v1('x', 1, 'x', 1, false)",
        "SELECT lockfast_guard.grant_v1('app')",
    ],
)
def test_a_writer_cannot_lower_a_mark(app: Connection, statement: str) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        app.execute(statement.encode())


def test_a_writer_who_had_all_rights_to_the_marks_keeps_the_right_to_read_them(
    server: Postgres,
) -> None:
    """PostgreSQL 17 has another right, MAINTAIN: its owner could lock out all writers."""
    server.command("CREATE ROLE trusted; GRANT ALL ON lockfast_guard.mark TO trusted")
    server.command("SELECT lockfast_guard.grant_v1('trusted')")
    rows = server.command(
        "SELECT a.privilege_type FROM pg_class c, LATERAL aclexplode(c.relacl) a "
        "WHERE c.oid = 'lockfast_guard.mark'::regclass AND a.grantee = 'trusted'::regrole"
    )
    assert rows == [("SELECT",)]


def test_one_who_may_create_in_a_schema_on_the_path_runs_nothing_as_a_writer(
    client: lockfast.Client,
) -> None:
    with database() as server:
        server.command("CREATE ROLE app LOGIN")
        server.command(INVOICES)
        set_traps(server, "app")
        server.command("ALTER ROLE postgres SET search_path = public, pg_catalog")
        install(server.url, role="app")
        trap(server, "to_jsonb(public.invoice)", "jsonb")
        server.command("SELECT lockfast_guard.protect_v1('invoice', 'invoice:{id}')")
        server.command("SELECT lockfast_guard.protect_v1('watched', 'watched')")
        assert not caught(server)
        with psycopg.connect(server.url.replace("postgres@", "app@")) as connection:
            write_everything(connection, client)
        assert not caught(server)


def test_every_function_has_a_fixed_path_or_is_for_the_owner_alone(server: Postgres) -> None:
    rows = server.command(
        "SELECT proname FROM pg_proc WHERE pronamespace = 'lockfast_guard'::regnamespace "
        "AND has_function_privilege('app', oid, 'execute') "
        "AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY(proconfig), false)"
    )
    assert rows == []


def test_an_installation_of_the_earlier_schema_is_brought_up_to_date_with_its_users(
    client: lockfast.Client,
) -> None:
    with database() as server:
        server.command("CREATE ROLE app LOGIN")
        server.command(INVOICES)
        server.command(
            "DROP FUNCTION lockfast_guard.grant_v1; "
            "GRANT EXECUTE ON ALL ROUTINES IN SCHEMA lockfast_guard TO PUBLIC; "
            "GRANT USAGE ON SCHEMA lockfast_guard TO app; "
            "GRANT SELECT, INSERT, UPDATE ON lockfast_guard.mark TO app"
        )
        install(server.url)
        with psycopg.connect(server.url.replace("postgres@", "app@")) as connection:
            guard = PostgresGuard(connection)
            guard.seal(lease(client, "upgraded"))
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute("UPDATE lockfast_guard.mark SET token = 1")
