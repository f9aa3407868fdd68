"""A PostgreSQL that answers what none should: only errors of ours come of it, and never a lease."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

import lockfast
from lockfast import EngineUnavailable, LockfastError
from lockfast.engines import opener
from lockfast.engines.postgres import connection, install
from lockfast.engines.postgres.engine import PostgresEngine
from lockfast.port import Ask, Shape
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.servers import Postgres, wait_until

NOW = "1794784099371244"
STANDINGS = [
    "7 t 1000000000000 0 0 7",  # left, a week and more
    "7 t -1 0 0 7",
    "-7 t 1000000 0 0 7",
    "0 t 1000000 0 0 7",
    f"{2**70} t 1000000 0 0 7",
    f"{2**53} t 1000000 0 0 7",
    "7 t 1000000 0 -1 7",
    "7 t 1000000 0 0 -7",
    "7 t 1e6 0 0 7",
    "7 t nan 0 0 7",
    "7 t 1_000 0 0 7",
    "7 true 1000000 0 0 7",
    "7 t 1000000 0 0",
    "7 t 1000000 0 0 7 8",
    "7 f 1000000 0 0 7",
    "7 f 1000000 0 0 7 - head 6 zz",
    "7 f 1000000 0 0 7 x head 6 00",
    "7 f 1000000 0 0 7 - head -6 00",
]
CLAIMS = ["", "x", "-1", f"{2**80}", f"{NOW} 0x1", f"{NOW} 1", f"{NOW} 4", f"{NOW} 99", "1" * 5000]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(config={"fsync": "off"}) as server:
        install(server.url)
        yield server


@contextmanager
def answering(
    server: Postgres, function: str, kind: str, answer: str, *, several: bool = False
) -> Iterator[None]:
    """Have a function of the schema answer that, whatever it is asked. `several`: the one with
    arrays, of two with that name.
    """
    array_first = "proargtypes[0] = 'bytea[]'::regtype"
    found = server.command(
        f"SELECT oid::regprocedure::text, {array_first} FROM pg_proc "  # noqa: S608  # ours
        f"WHERE pronamespace = 'lockfast'::regnamespace AND proname = '{function}'"
    )
    (call,) = [name for name, arrays in found if len(found) == 1 or arrays == several]
    server.command(
        f"ALTER FUNCTION {call} RENAME TO honest; "
        f"CREATE FUNCTION {call} RETURNS {kind} LANGUAGE sql "
        f"AS $f$ SELECT $a${answer}$a$::{kind} $f$"
    )
    try:
        yield
    finally:
        honest = call.replace(function, "honest")
        server.command(f"DROP FUNCTION {call}; ALTER FUNCTION {honest} RENAME TO {function}")


@pytest.fixture
def engine(server: Postgres) -> Iterator[PostgresEngine]:
    engine = opener(parse(server.url), Threads())()
    assert isinstance(engine, PostgresEngine)
    yield engine
    drive(engine.close())


def ask(name: str = "x") -> Ask:
    return Ask(secrets.token_hex(16), Shape(name, 5.0), True, now() + 5, b"")  # noqa: FBT003


@pytest.mark.parametrize("answer", CLAIMS + [f"{NOW} {each}" for each in STANDINGS])
def test_a_claim_with_an_impossible_reply_is_unknown_and_not_granted(
    server: Postgres, engine: PostgresEngine, answer: str
) -> None:
    with answering(server, "claim_v2", "text", answer):
        with pytest.raises(EngineUnavailable) as caught:
            drive(engine.claim(ask(), now() + 2))
        assert caught.value.sent
        assert engine._transport._links() == []  # the next reply might make no sense either
    for answers in (f"{answer}\n{NOW}", f"{NOW}\n{answer}", NOW, f"{NOW}\n{NOW}\n{NOW}"):
        with answering(server, "claim_v2", "text", answers, several=True):
            with pytest.raises(EngineUnavailable) as caught:
                drive(engine.claim_all([ask("a"), ask("b")], now() + 2))
            assert caught.value.sent
            assert engine._transport._links() == []
    free = ask()
    standing = drive(engine.claim(free, now() + 2))
    assert standing is not None
    assert standing.granted
    drive(engine.resign([free], now() + 2, doubt=False))


@pytest.mark.parametrize("told", ["-1", "9" * 20, "9" * 400, "x", ""])
def test_a_greeting_with_an_impossible_time_is_no_connection(
    engine: PostgresEngine, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    greeting = f"SELECT pg_catalog.pg_backend_pid(), '{told} '::text, 'read committed'"
    with monkeypatch.context() as patch:
        patch.setattr(connection, "GREETING", greeting.encode())
        with pytest.raises(
            EngineUnavailable, match="the greeting of the server cannot be read"
        ) as caught:
            drive(engine.claim(ask(), now() + 2))
        assert not caught.value.sent
    mine = ask()
    assert drive(engine.claim(mine, now() + 2)) is not None
    drive(engine.resign([mine], now() + 2, doubt=False))


@pytest.mark.parametrize(
    "answer",
    ["", "x", f"1 {NOW}", f"0 {NOW}", f"3 {NOW}", f"1 {NOW}\n1 {NOW}", f"1 {NOW}\n2 {NOW}\n2 {NOW}"]
    + [f"1 {NOW} {kind}\n2 {NOW}" for kind in (1, 4, 99, -1, 2**15)]
    + [f"1 {NOW} {each}\n2 {NOW}" for each in STANDINGS],
)
def test_a_renewal_with_an_impossible_reply_is_unknown_and_not_lost(
    server: Postgres, engine: PostgresEngine, answer: str
) -> None:
    with (
        answering(server, "renew_v2", "text", answer),
        pytest.raises(EngineUnavailable) as caught,
    ):
        drive(engine.renew([ask("a"), ask("b")], now() + 2))
    assert caught.value.sent


@pytest.mark.parametrize("answer", ["", "t", "ttt", "tx", "tt\nnote", "tt\nid 1 '); SELECT 1; --"])
def test_a_resignation_with_an_impossible_reply_is_unknown(
    server: Postgres, engine: PostgresEngine, answer: str
) -> None:
    with (
        answering(server, "resign_v2", "text", answer),
        pytest.raises(EngineUnavailable) as caught,
    ):
        drive(engine.resign([ask("a"), ask("b")], now() + 2, doubt=False))
    assert caught.value.sent


def test_a_client_gets_an_error_of_ours(server: Postgres) -> None:
    with (
        lockfast.connect(server.url) as client,
        answering(server, "claim_v2", "text", f"{NOW} 7 t 1000000000000 0 0 7"),
        pytest.raises(LockfastError),
    ):
        client.lock("x").acquire(timeout=0.5)


def test_a_name_that_is_not_text_hides_no_other(server: Postgres) -> None:
    call = (
        "SELECT lockfast.claim_v2('\\x61ff', 'stranger', 1, 1, 1, 5000000, 5000000, true, "
        "4503599627370495, 0, '', '')"
    )
    with lockfast.connect(server.url) as client, client.lock("seen"):
        server.command(call)
        assert len(client.inspect()) == 2
    server.command("SELECT lockfast.resign_v2('{\"\\\\x61ff\"}', '{stranger}', '{NULL}')")


def test_a_forged_notification_lets_nobody_in_and_a_broken_one_deafens_nobody(
    server: Postgres,
) -> None:
    entered = threading.Event()

    def wait(client: lockfast.Client) -> None:
        with client.lock("pushed", ttl=10):
            entered.set()

    with lockfast.connect(server.url) as client, lockfast.connect(server.url) as other:
        lease = client.lock("pushed", ttl=10).acquire()
        waiter = threading.Thread(target=wait, args=(other,))
        waiter.start()
        wait_until(lambda: len(client.lock("pushed").queue()) == 2, "one waits")
        ident = client.lock("pushed").queue()[1].id
        # Anybody who may connect can do this, and ids are shown to everybody.
        with psycopg.connect(server.url, autocommit=True) as mallory:
            for text in (f"{ident} 0", "", "x", "\u00e9 1", f"{ident} {'9' * 5000}", ident):
                mallory.execute("SELECT pg_notify(%s, %s)", [f"lockfast_{ident[:22]}", text])
        assert not entered.wait(1.0)
        lease.release()
        assert entered.wait(2.0)
        waiter.join(5)
