"""PostgreSQL with unusual settings, encodings and crowds: locks work in all of them."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import lockfast
from lockfast.engines import opener
from lockfast.engines.postgres import install
from lockfast.port import SHARED, Ask, Engine, Kind, Shape, Standing
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.docs.rights import do_everything
from tests.servers import Postgres

EARLIER = "06c4f04"
"""The last commit without the claim_v2 for several claims. Its clients may install."""
SCHEMA = "src/lockfast/engines/postgres/schema.sql"
SETTINGS = [
    "array_nulls = off",
    "backslash_quote = off",
    "bytea_output = escape",
    "client_encoding = LATIN1",
    "DateStyle = 'German, DMY'",
    "default_transaction_isolation = serializable",
    "enable_indexscan = off",
    "enable_nestloop = off",
    "extra_float_digits = -15",
    "lock_timeout = '1ms'",
    "plan_cache_mode = force_custom_plan",
    "plan_cache_mode = force_generic_plan",
    "quote_all_identifiers = on",
    "row_security = off",
    "search_path = ''",
    "standard_conforming_strings = off",
    "synchronous_commit = off",
    "transform_null_equals = on",
]
MANY = 1700  # more than a row of PostgreSQL has columns


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(config={"fsync": "off"}) as server:
        server.command("CREATE ROLE app LOGIN")
        install(server.url, role="app")
        yield server


def opened(url: str) -> Engine:
    return opener(parse(url.replace("postgres@", "app@")), Threads())()


def ask(name: str, shape: tuple[Kind, int, int] = (Kind.LOCK, 1, 1), prefix: str = "") -> Ask:
    ident = prefix + secrets.token_hex(16)[len(prefix) :]
    return Ask(ident, Shape(name, 60.0, *shape), queue=True, not_after=now() + 30.0, payload=b"")


def granted(found: list[Standing | Exception | None]) -> list[bool | None]:
    return [each.granted if isinstance(each, Standing) else None for each in found]


def hand_over(engine: Engine) -> None:
    """Take free names in one call and singly, queue behind one, hand it over, and leave them."""
    first, second, third = (ask(f"settings {number}") for number in range(3))
    until = now() + 30.0
    assert granted(drive(engine.claim_all([first, second], until))) == [True, True]
    assert granted([drive(engine.claim(third, until))]) == [True]
    waiters = [ask(each.shape.name) for each in (first, third)]
    assert granted(drive(engine.claim_all(waiters, until))) == [False, False]
    assert granted(drive(engine.renew([first, second, *waiters], until))) == [
        True,
        True,
        False,
        False,
    ]
    assert drive(engine.resign([first, second], until, doubt=False)) == [True, True]
    assert drive(engine.resign([third], until, doubt=False)) == [True]
    assert granted(drive(engine.renew(waiters, until))) == [True, True]
    assert drive(engine.resign(waiters, until, doubt=True)) == [True, True]
    assert drive(engine.claim_all(waiters, until)) == [None, None]  # their tombstones
    assert drive(engine.claim(waiters[0], until)) is None


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_of_the_session_changes_nothing(server: Postgres, setting: str) -> None:
    server.command(f"ALTER ROLE app SET {setting}")
    engine = opened(server.url)
    try:
        for _ in range(7):  # PostgreSQL may choose another plan for the sixth time
            hand_over(engine)
        do_everything(server.url.replace("postgres@", "app@"))
    finally:
        drive(engine.close())
        server.command("ALTER ROLE app RESET ALL")


def test_no_function_is_compiled_while_it_has_locked_a_bucket(server: Postgres) -> None:
    """That takes a second, in each call. With sorts disabled, their plans look expensive."""
    arrays = (
        "'{1,1}', '{1,1}', '{1,1}', '{9000000,9000000}', '{9000000,9000000}', '{t,t}', "
        "'{4503599627370495,4503599627370495}', 0, '{p,p}', '{w,w}'"
    )
    calls = [
        f"SELECT lockfast.claim_v2('{{a,b}}', '{{x,y}}'::text[], {arrays})",
        "SELECT lockfast.renew_v2('{a,b,a}', '{x,y,z}')",
        "SELECT lockfast.resign_v2('{a,b,a}', '{x,y,z}', NULL)",
    ]

    def compiles(connection: psycopg.Connection) -> bool:
        """Tell whether the compiler was loaded, which is when it is used for the first time."""
        maps = Path(f"/proc/{connection.info.backend_pid}/maps").read_text(encoding="utf-8")
        return "llvmjit" in maps

    with psycopg.connect(server.url.replace("postgres@", "app@"), autocommit=True) as connection:
        connection.execute("SET enable_sort = off")
        for call in calls:
            connection.execute(call.encode())
            assert not compiles(connection), call
        # The server could have done it, if it has the compiler at all.
        connection.execute("SELECT n FROM generate_series(1, 3) n ORDER BY random()")
        (available,) = connection.execute("SELECT pg_jit_available()").fetchall()[0]
        assert compiles(connection) == available


def test_every_reader_that_the_end_of_a_writer_lets_in_is_notified(server: Postgres) -> None:
    engine, prefix = opened(server.url), secrets.token_hex(11)
    writer = ask("many readers", (Kind.READ_WRITE, SHARED, SHARED))
    readers = [ask("many readers", (Kind.READ_WRITE, SHARED, 1), prefix) for _ in range(MANY)]
    until = now() + 60.0
    try:
        assert granted(drive(engine.claim_all([writer], until))) == [True]
        assert set(granted(drive(engine.claim_all(readers, until)))) == {False}
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"LISTEN lockfast_{prefix}".encode())
            assert drive(engine.resign([writer], until, doubt=False)) == [True]
            told = connection.notifies(timeout=20, stop_after=MANY)
            assert {each.payload.split()[0] for each in told} == {each.id for each in readers}
        assert drive(engine.resign(readers, until, doubt=False)) == [True] * MANY
    finally:
        drive(engine.close())


@pytest.mark.parametrize(
    ("encoding", "word"),
    [
        ("SQL_ASCII", b"\\xff"),  # octets, which PostgreSQL takes for UTF8 that is broken
        ("EUC_JP", b"\\xf5\\xa1"),  # a character for private use, which UTF8 has no place for
        ("UTF8", b"\\x5c"),  # one backslash, which begins an escape in a bytea
    ],
)
def test_a_word_without_a_form_in_utf8_keeps_nobody_from_leaving(
    server: Postgres, encoding: str, word: bytes
) -> None:
    database = f"in_{encoding.lower()}"
    server.command(
        f"CREATE DATABASE {database} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' "
        "TEMPLATE template0"
    )
    url = f"{server.url.removesuffix('/postgres')}/{database}"
    install(url, role="app")
    call = (
        b"SELECT lockfast.claim_v2('worded', 'x', 1, 1, 1, 60000000, 60000000, true, "
        b"4503599627370495, 0, '', E'" + word + b"')"
    )
    engine = opened(url)
    try:
        hand_over(engine)
        first, second = ask("worded"), ask("worded")
        assert granted(drive(engine.claim_all([first], now() + 30.0))) == [True]
        with psycopg.connect(url.replace("postgres@", "app@"), autocommit=True) as stranger:
            refused = stranger.pgconn.exec_(call)
            assert refused.error_field(psycopg.pq.DiagnosticField.SQLSTATE) == b"22023"
        # Functions of an earlier version let it in.
        assert granted(drive(engine.claim_all([second], now() + 30.0))) == [False]
        with psycopg.connect(url, autocommit=True) as owner:
            stored = owner.pgconn.exec_(
                b"UPDATE lockfast.claim SET word = E'" + word + b"' WHERE waits"
            )
            assert not stored.error_message, stored.error_message
        assert drive(engine.resign([first], now() + 30.0, doubt=False)) == [True]
        assert granted(drive(engine.renew([second], now() + 30.0))) == [True]
    finally:
        drive(engine.close())


@pytest.fixture
def earlier(server: Postgres) -> Iterator[str]:
    """A database with the functions of this version, and the bodies of an earlier one over some of
    them, as after an upgrade that an earlier version's `install` followed.
    """
    root = Path(__file__).parents[2]
    argv = ["git", "-C", str(root), "show", f"{EARLIER}:{SCHEMA}"]
    sql = subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout
    server.command("DROP DATABASE IF EXISTS earlier WITH (FORCE)")
    server.command("CREATE DATABASE earlier")
    url = f"{server.url.removesuffix('/postgres')}/earlier"
    install(url, role="app")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql)
    yield url
    server.command("DROP DATABASE earlier WITH (FORCE)")


def test_functions_of_an_earlier_version_work_beside_those_of_this_one(earlier: str) -> None:
    engine = opened(earlier)
    try:
        # Its resign_v2 writes the tombstones, and claim_v2 of this version sees them.
        hand_over(engine)
        kept, waiter = ask("kept"), ask("kept")
        assert granted(drive(engine.claim_all([kept], now() + 30.0))) == [True]
        assert granted([drive(engine.claim(waiter, now() + 30.0))]) == [False]
        tombed = ask("tombed")
        assert drive(engine.resign([tombed], now() + 30.0, doubt=True)) == [False]
        install(earlier)
        assert drive(engine.claim(tombed, now() + 30.0)) is None
        assert drive(engine.claim_all([tombed], now() + 30.0)) == [None]
        assert drive(engine.resign([kept], now() + 30.0, doubt=False)) == [True]
        assert granted(drive(engine.renew([waiter], now() + 30.0))) == [True]
        hand_over(engine)
    finally:
        drive(engine.close())


@pytest.mark.parametrize("grantee", ["public", "app"])
def test_an_earlier_version_grants_the_right_to_batches_too(earlier: str, grantee: str) -> None:
    """Its `install` revokes all rights of PUBLIC, and grants those again that it knows by name."""
    with psycopg.connect(earlier, autocommit=True) as connection:
        connection.execute("REVOKE ALL ON ALL FUNCTIONS IN SCHEMA lockfast FROM app, PUBLIC")
        connection.execute(f"SELECT lockfast.grant_v2('{grantee}')".encode())
    engine = opened(earlier)
    try:
        hand_over(engine)
    finally:
        drive(engine.close())


def test_a_tombstone_forbids_its_id_in_a_batch_and_nothing_else(server: Postgres) -> None:
    engine = opened(server.url)
    dead, free = ask("tombed"), ask("tombed")
    try:
        assert drive(engine.resign([dead], now() + 30.0, doubt=True)) == [False]
        assert drive(engine.claim_all([dead], now() + 30.0)) == [None]
        assert drive(engine.claim(dead, now() + 30.0)) is None
        with lockfast.connect(server.url) as client:
            assert client.lock("tombed").holders() == []
        assert granted(drive(engine.claim_all([dead, free], now() + 30.0))) == [None, True]
        assert drive(engine.resign([free], now() + 30.0, doubt=False)) == [True]
    finally:
        drive(engine.close())
