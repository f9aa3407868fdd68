"""How one PostgreSQL engine hears many clients, as a replica of the service does."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from lockfast import EngineRefused
from lockfast.engines import opener
from lockfast.engines.postgres import install
from lockfast.engines.postgres.connection import Link
from lockfast.engines.postgres.engine import PostgresEngine
from lockfast.engines.postgres.transport import CHUNK
from lockfast.port import CLIENT, EVERYONE, Ask, Shape, Wake, everyone_of
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.servers import Postgres

EARS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(config={"fsync": "off"}) as server:
        server.command("CREATE ROLE app LOGIN; CREATE ROLE other LOGIN")
        for role in ("app", "other"):
            install(server.url, role=role)
        yield server


@contextmanager
def engine_at(url: str) -> Iterator[PostgresEngine]:
    engine = opener(parse(url), Threads())()
    assert isinstance(engine, PostgresEngine)
    try:
        yield engine
    finally:
        drive(engine.close())


@pytest.fixture
def engine(server: Postgres) -> Iterator[PostgresEngine]:
    with engine_at(server.url) as engine:
        yield engine


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Collect the statements that engines send."""
    statements: list[bytes] = []
    send = Link.send

    def spy(self: Link, sql: bytes) -> int:
        statements.append(sql)
        return send(self, sql)

    monkeypatch.setattr(Link, "send", spy)
    return statements


def clients(count: int) -> list[str]:
    return [secrets.token_hex(CLIENT // 2) for _ in range(count)]


def heard(engine: PostgresEngine, enough: int = 1, patience: float = 20.0) -> list[Wake]:
    """Listen until there are enough wakes, or for some seconds."""
    end, wakes = now() + patience, list[Wake]()
    while len(wakes) < enough and now() < end:
        wakes += drive(engine.listen(min(end, now() + 5.0)))
    return wakes


def notify(server: Postgres, client: str) -> Wake:
    """Send a note without a signature to a client, and return the wake that it stands for."""
    ident = client + secrets.token_hex(5)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("SELECT pg_notify(%s, %s)", (f"lockfast_{client}", f"{ident} 1 x"))
    return Wake(ident, granted=False)


def test_nothing_is_sent_before_a_client_is_heard(
    engine: PostgresEngine, sent: list[bytes]
) -> None:
    assert drive(engine.listen(now() + 0.2)) == []
    assert sent == []


def test_one_client_costs_one_statement(engine: PostgresEngine, sent: list[bytes]) -> None:
    (client,) = clients(1)
    engine.hear(client, on=True)
    assert heard(engine) == [EVERYONE]
    assert [sql for sql in sent if b"LISTEN" in sql] == [f"LISTEN lockfast_{client}".encode()]


def test_many_clients_are_heard_after_few_statements(
    server: Postgres, engine: PostgresEngine, sent: list[bytes]
) -> None:
    every = clients(2 * CHUNK + 10)
    for client in every:
        engine.hear(client, on=True)
    assert heard(engine) == [EVERYONE]
    listens = [sql.count(b"LISTEN") for sql in sent if b"LISTEN" in sql]
    assert listens == [CHUNK, CHUNK, 10]
    for client in (every[0], every[CHUNK], every[-1]):
        wake = notify(server, client)
        assert heard(engine) == [wake]


def test_clients_that_come_later_are_heard_after_one_statement(
    server: Postgres, engine: PostgresEngine, sent: list[bytes]
) -> None:
    first, *later = clients(31)
    engine.hear(first, on=True)
    assert heard(engine) == [EVERYONE]
    sent.clear()
    for client in later:
        engine.hear(client, on=True)
    assert sorted(heard(engine)) == sorted(map(everyone_of, later))
    assert len(sent) == 1
    wake = notify(server, later[7])
    assert heard(engine) == [wake]


def test_a_client_that_left_is_not_heard(server: Postgres, engine: PostgresEngine) -> None:
    gone, stays = clients(2)
    for client in (gone, stays):
        engine.hear(client, on=True)
    assert heard(engine) == [EVERYONE]
    engine.hear(gone, on=False)
    drive(engine.listen(now() + 0.5))
    listening = drive(
        engine._transport.call(
            b"SELECT pg_catalog.pg_listening_channels()", now() + 5.0, list, heart=True
        )
    )
    assert listening == [[f"lockfast_{stays}".encode()]]
    notify(server, gone)
    wake = notify(server, stays)
    assert heard(engine) == [wake]


def test_after_a_lost_connection_all_are_heard_again(
    server: Postgres, engine: PostgresEngine, sent: list[bytes]
) -> None:
    every = clients(CHUNK + 1)
    for client in every[:-1]:
        engine.hear(client, on=True)
    assert heard(engine) == [EVERYONE]
    engine.hear(every[-1], on=True)
    assert heard(engine) == [everyone_of(every[-1])]
    sent.clear()
    server.command(EARS)
    assert heard(engine) == [EVERYONE]
    assert sum(sql.count(b"LISTEN") for sql in sent) == len(every)
    for client in (every[0], every[-1]):
        wake = notify(server, client)
        assert heard(engine) == [wake]


def test_clients_whose_subscription_failed_are_subscribed_later(
    server: Postgres, engine: PostgresEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = clients(2)
    engine.hear(first, on=True)
    assert heard(engine) == [EVERYONE]
    engine.hear(second, on=True)
    failing = b"SELECT 1 / 0"
    with monkeypatch.context() as patch:
        patch.setattr("lockfast.engines.postgres.messages.listen", lambda _clients: failing)
        assert drive(engine.listen(now() + 0.1)) == []
    assert heard(engine) == [everyone_of(second)]
    wake = notify(server, second)
    assert heard(engine) == [wake]


def test_a_client_that_comes_while_many_leave_is_heard(
    server: Postgres, engine: PostgresEngine
) -> None:
    """One statement carries CHUNK changes, so what is left follows without waiting for a wake."""
    late, *gone = clients(2 * CHUNK + 1)
    for client in gone:
        engine.hear(client, on=True)
    assert heard(engine) == [EVERYONE]
    engine.hear(late, on=True)
    for client in gone:
        engine.hear(client, on=False)
    began = now()
    assert heard(engine) == [everyone_of(late)]
    assert now() < began + 4.0
    wake = notify(server, late)
    assert heard(engine) == [wake]


def test_wakes_arrive_while_clients_come_without_a_pause(
    server: Postgres, engine: PostgresEngine
) -> None:
    first, *later = clients(50)
    engine.hear(first, on=True)
    assert heard(engine) == [EVERYONE]
    wake = notify(server, first)
    found: list[Wake] = []
    for client in later:  # each `listen` has one more client to subscribe to
        engine.hear(client, on=True)
        found += drive(engine.listen(now() + 0.1))
    assert wake in found


def test_one_claim_that_may_not_be_resigned_does_not_fail_its_neighbours(server: Postgres) -> None:
    mine, theirs = (server.url.replace("postgres@", f"{role}@", 1) for role in ("app", "other"))

    def ask(name: str) -> Ask:
        return Ask(secrets.token_hex(16), Shape(name, 30.0), True, now() + 10.0, b"")  # noqa: FBT003  # as the port has it

    with engine_at(mine) as engine, engine_at(theirs) as other:
        asks = [ask("a"), ask("b"), ask("c")]
        for each, owner in zip(asks, (engine, other, engine), strict=True):
            drive(owner.claim(each, now() + 5.0))
        first, second, third = drive(engine.resign(asks, now() + 5.0, doubt=True))
        assert (first, third) == (True, True)
        assert isinstance(second, EngineRefused)
        assert "other" in str(second)
        assert drive(other.resign([asks[1]], now() + 5.0, doubt=True)) == [True]
