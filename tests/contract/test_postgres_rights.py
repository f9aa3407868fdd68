"""What roles can do to one another on PostgreSQL: take and release locks, and nothing else."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import psycopg
import pytest

import lockfast
from lockfast import EngineRefused
from lockfast.engines import opener
from lockfast.engines.postgres import install
from lockfast.port import SHARED, Ask, Shape
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.docs.rights import do_everything
from tests.servers import Postgres
from tests.servers.mallory import caught, set_traps

RUN = "CREATE ROLE app LOGIN; CREATE ROLE other LOGIN; CREATE ROLE operator LOGIN"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(config={"fsync": "off"}) as server:
        server.command(RUN)
        install(server.url, role="app")
        install(server.url, role="other")
        yield server


def as_role(server: Postgres, role: str) -> str:
    return server.url.replace("postgres@", f"{role}@")


def refused(url: str, statement: str) -> str:
    """Have a statement refused, and give the SQLSTATE."""
    with psycopg.connect(url, autocommit=True) as connection, pytest.raises(psycopg.Error) as no:
        connection.execute(statement.encode())
    return no.value.sqlstate or ""


def test_one_who_may_create_in_a_schema_on_the_path_runs_nothing_as_a_lock_user() -> None:
    with Postgres(config={"fsync": "off"}) as server:
        server.command("CREATE ROLE victim LOGIN")
        install(server.url, role="victim")
        set_traps(server, "victim")
        do_everything(as_role(server, "victim"))
        with lockfast.connect(as_role(server, "victim")) as client:
            with client.lock_all("a", "b"):
                assert client.lock("a").holders()
            assert not caught(server)


def test_an_installation_runs_nothing_of_one_who_may_create_in_a_schema_on_its_path() -> None:
    with Postgres(config={"fsync": "off"}) as server:
        set_traps(server, "postgres")
        install(server.url)
        install(server.url)
        assert not caught(server)


def test_every_function_that_a_lock_user_may_call_has_a_fixed_path(server: Postgres) -> None:
    rows = server.command(
        "SELECT proname, prosecdef, 'search_path=pg_catalog, pg_temp' = ANY(proconfig) "
        "FROM pg_proc WHERE pronamespace = 'lockfast'::regnamespace "
        "AND has_function_privilege('app', oid, 'execute') ORDER BY 1"
    )
    # claim_v2 has two forms, for one claim and for several.
    names = ["claim_v2", "record_v2", "records_v2", "renew_v2", "resign_v2", "show_v2"]
    refusing = [
        "claim_v1",
        *(name.replace("2", "1") for name in names),
    ]  # claim_v1 had two forms too
    added = ["attach_v2", "depart_v2", "claim_v2"]
    assert rows == [(name, True, True) for name in sorted([*names, *added, *refusing])]


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM lockfast.claim",
        "UPDATE lockfast.claim SET expires = 0",
        "UPDATE lockfast.bucket SET last = 9007199254740991",
        "INSERT INTO lockfast.tombstone VALUES ('x', 0, 0, '')",
        "TRUNCATE lockfast.bucket",
        "INSERT INTO lockfast.broken VALUES ('x', 'x', 0, '')",
        "INSERT INTO lockfast.attached VALUES ('x', 'app', 1, 0)",
        "SELECT lockfast.leave_v2('x', 1, 0, 1, NULL)",
        "SELECT lockfast.sweep_v2(1, 9007199254740991)",
        "SELECT lockfast.grant_v2('other')",
        "CREATE FUNCTION lockfast.claim_v2() RETURNS text LANGUAGE sql AS $$ SELECT 'x' $$",
    ],
)
def test_a_lock_user_cannot_touch_what_is_stored(server: Postgres, statement: str) -> None:
    assert refused(as_role(server, "app"), statement) == "42501"


def claiming(sizes: str = "1, 1, 1", base: int = 0, id_: str = "x", **sql: str) -> str:
    """Write a claim; `sizes`: its kind, capacity and weight; `sql`: expressions for its name, its
    payload and its word.
    """
    said = {"name": "'held'", "payload": "''", "word": "''"} | sql
    return (
        f"SELECT lockfast.claim_v2({said['name']}, '{id_}', {sizes}, 1000000, 1000000, true, "
        f"4503599627370495, {base}, {said['payload']}, {said['word']})"
    )


@pytest.mark.parametrize(
    "statement",
    [
        claiming("1, 1, -1"),
        claiming("1, 1, 0"),
        claiming("1, 1, 2"),
        claiming("1, 2, 1"),  # a lock that would fit beside another
        claiming(f"1, {SHARED}, 1"),
        claiming("2, 1, 1"),
        claiming(f"2, {SHARED}, 2"),
        claiming(f"3, {SHARED}, 1"),
        claiming("0, 1, 1"),
        claiming("4, 1, 1"),
        claiming("101, 1, 1"),
        claiming("NULL, 1, 1"),
        claiming(base=2**53 - 1),
        claiming(base=-(2**62)),
        claiming(id_="a b"),
        claiming(id_=""),
        claiming(name="convert_to(repeat('x', 513), 'UTF8')"),
        claiming(payload="convert_to(repeat('x', 65537), 'UTF8')"),
        claiming(word="repeat('x', 65)"),
        claiming(word="repeat('é', 33)"),
    ],
)
def test_a_lock_user_cannot_make_a_claim_that_breaks_the_rule_for_others(
    server: Postgres, statement: str
) -> None:
    with lockfast.connect(as_role(server, "other")) as client, client.lock("held"):
        assert refused(as_role(server, "app"), statement) == "22023"
        assert client.lock("held").try_acquire() is None


def test_a_claim_may_have_a_name_a_payload_and_a_word_of_full_length(server: Postgres) -> None:
    name, id_ = "convert_to(repeat('x', 512), 'UTF8')", "f" * 32
    payload, word = "convert_to(repeat('x', 65536), 'UTF8')", "repeat('x', 64)"
    with psycopg.connect(as_role(server, "app"), autocommit=True) as connection:
        call = claiming(id_=id_, name=name, payload=payload, word=word)
        row = connection.execute(call.encode()).fetchone()
        assert row is not None
        assert row[0].split()[2] == "t"
        gone = f"SELECT lockfast.resign_v2(ARRAY[{name}], '{{{id_}}}', '{{NULL}}')"
        assert connection.execute(gone.encode()).fetchall() == [("t",)]


def test_a_second_record_of_a_break_does_not_rewrite_the_first(server: Postgres) -> None:
    with (
        lockfast.connect(as_role(server, "app")) as client,
        client.lock("recorded", ttl=5) as lease,
        psycopg.connect(as_role(server, "app"), autocommit=True) as connection,
    ):
        for record in (b"first", b"second"):
            connection.execute("SELECT lockfast.record_v2('recorded', %s, %s)", [lease.id, record])
        kept = connection.execute("SELECT lockfast.records_v2('recorded')").fetchall()
        assert [bytes.fromhex(row[0]) for row in kept] == [b"first"]


def test_a_lock_user_cannot_record_the_break_of_another_roles_lock(server: Postgres) -> None:
    with lockfast.connect(as_role(server, "other")) as client, client.lock("kept") as lease:
        call = f"SELECT lockfast.record_v2('kept', '{lease.id}', 'x')"
        with psycopg.connect(as_role(server, "app"), autocommit=True) as connection:
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="other") as no:
                connection.execute(call.encode())
            assert "member of that role" in (no.value.diag.message_hint or "")


def test_a_lock_user_cannot_release_the_lock_of_another_role(server: Postgres) -> None:
    with (
        lockfast.connect(as_role(server, "other")) as client,
        client.lock("theirs", ttl=5) as lease,
        lockfast.connect(as_role(server, "app")) as stranger,
    ):
        call = f"SELECT lockfast.resign_v2('{{theirs}}', '{{{lease.id}}}', '{{NULL}}')"
        assert refused(as_role(server, "app"), call) == "42501"
        with pytest.raises(EngineRefused, match="other"):
            stranger.revoke(stranger.lock("theirs").holders()[0], "I want it")
        assert client.lock("theirs").holders()
        assert client.breaks("theirs") == []


def test_a_lock_user_cannot_forbid_another_role_an_id(server: Postgres) -> None:
    prefix = secrets.token_hex(11)
    ids = [f"{prefix}{number:010x}" for number in range(2)]
    for id_ in ids:
        with psycopg.connect(as_role(server, "app"), autocommit=True) as connection:
            connection.execute(
                "SELECT lockfast.resign_v2('{free}', %s, '{4503599627370495}')", [[id_]]
            )
    with psycopg.connect(as_role(server, "other"), autocommit=True) as connection:
        claimed = connection.execute(claiming(id_=ids[0]).replace("held", "free").encode())
        row = claimed.fetchone()
        assert row is not None
        assert len(row[0].split()) > 1
        connection.execute("SELECT lockfast.resign_v2('{free}', %s, '{NULL}')", [[ids[0]]])
    with psycopg.connect(as_role(server, "app"), autocommit=True) as connection:
        dead = connection.execute(claiming(id_=ids[1]).replace("held", "free").encode())
        assert dead.fetchall()[0][0].isdigit()  # its own word counts


@pytest.mark.parametrize("of", ["other", "postgres"])
def test_a_member_of_the_role_or_of_the_schemas_owner_can_break_its_locks(
    server: Postgres, of: str
) -> None:
    server.command(f"GRANT {of} TO operator")
    try:
        with lockfast.connect(as_role(server, "other")) as client:
            lease = client.lock("broken", ttl=5).acquire()
            with lockfast.connect(as_role(server, "operator")) as operator:
                assert operator.revoke(operator.lock("broken").holders()[0], "an operator")
            assert client.lock("broken").holders() == []
            assert lease.wait_lost(5)
    finally:
        server.command(f"REVOKE {of} FROM operator")


def test_a_schema_that_a_stranger_has_made_is_not_installed_into() -> None:
    with Postgres(config={"fsync": "off"}) as server:
        server.command("CREATE ROLE stranger; CREATE SCHEMA lockfast AUTHORIZATION stranger")
        with pytest.raises(EngineRefused, match="stranger"):
            install(server.url)


@pytest.mark.parametrize("name", ["wanted", "elsewhere"])
def test_a_claim_that_another_role_made_of_our_id_is_not_taken_for_ours(
    server: Postgres, name: str
) -> None:
    id_ = secrets.token_hex(16)
    call = (
        f"SELECT lockfast.claim_v2('{name}', '{id_}', 1, 1, 1, 30000000, 10000000, true, "
        "4503599627370495, 0, '', '')"
    )
    engine = opener(parse(as_role(server, "app")), Threads())()
    ask = Ask(id_, Shape("wanted", 30.0), True, now() + 10, b"")  # noqa: FBT003
    try:
        with psycopg.connect(as_role(server, "other"), autocommit=True) as connection:
            connection.execute(call.encode())
            assert drive(engine.claim(ask, now() + 5)) is None
            assert drive(engine.claim_all([ask], now() + 5)) == [None]
            gone = f"SELECT lockfast.resign_v2('{{{name}}}', '{{{id_}}}', '{{NULL}}')"
            assert connection.execute(gone.encode()).fetchall() == [("t",)]
    finally:
        drive(engine.close())


def test_another_role_cannot_take_the_connection_of_a_claim(server: Postgres) -> None:
    found = []
    for role, epoch in (("app", 1), ("other", 99), ("app", 2), ("app", 1)):
        with psycopg.connect(as_role(server, role), autocommit=True) as connection:
            attach = f"SELECT lockfast.attach_v2('{{{'ab' * 16}}}', '{{{epoch}}}', '{{99000000}}')"
            found += connection.execute(attach.encode()).fetchall()
    assert found == [("t",), ("t",), ("t",), ("f",)]
