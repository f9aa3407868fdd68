"""Installations of the PostgreSQL schema over other versions of it, and under clients at work."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import psycopg
import pytest

import lockfast
from lockfast import EngineRefused, aio
from lockfast.core.record import FORMAT
from lockfast.engines.postgres import install
from tests.docs.rights import do_everything
from tests.servers import Postgres

FORMAT_0 = (Path(__file__).parent / "postgres_format_0.sql").read_text("utf-8")
"""The schema of commit c0ff680, which was never released: the last one without a format."""
FAR = 2**52
BOTH = rf"format 0.*format {FORMAT}"
FUNCTIONS = (
    "SELECT oid, proname, prosrc, proacl::text FROM pg_proc WHERE pronamespace = {} ORDER BY 1"
)
OURS = FUNCTIONS.format("'lockfast'::regnamespace")
OLD_CALLS = [
    f"SELECT lockfast.claim_v1('x', 'a', 1, 1, 5000000, 5000000, true, {FAR}, 0, '')",
    f"SELECT lockfast.claim_v1('x', 'a', 1, 1, 5000000, 5000000, true, {FAR}, 0, '', '')",
    "SELECT lockfast.renew_v1('{x}', '{a}')",
    "SELECT lockfast.resign_v1('{x}', '{a}', '{NULL}')",
    "SELECT * FROM lockfast.show_v1('x', NULL, NULL, NULL, 10)",
    "SELECT lockfast.record_v1('x', 'a', 'x')",
    "SELECT * FROM lockfast.records_v1('x')",
]


@pytest.fixture(scope="module")
def shared() -> Iterator[Postgres]:
    with Postgres(config={"fsync": "off"}) as server:
        server.command("CREATE ROLE app LOGIN")
        yield server


class Database:
    """An empty database."""

    def __init__(self, server: Postgres) -> None:
        server.command("DROP DATABASE IF EXISTS one WITH (FORCE)")
        server.command("CREATE DATABASE one")
        self.url = f"{server.url.removesuffix('/postgres')}/one"
        self.app = self.url.replace("postgres@", "app@")

    def command(self, sql: str, *, url: str = "") -> list[tuple[object, ...]]:
        with psycopg.connect(url or self.url, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def install_format_0(self) -> None:
        """Install as c0ff680 did, with a role that has the rights that its page named."""
        self.command(FORMAT_0)
        self.command(
            "GRANT USAGE ON SCHEMA lockfast TO app; "
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA lockfast TO app"
        )

    def claim_in_format_0(self, id_: str, ttl: float) -> list[str]:
        micros = round(ttl * 1e6)
        sql = (
            f"SELECT lockfast.claim_v1('x', '{id_}', 1, 1, {micros}, {micros}, true, {FAR}, 0, '')"
        )
        return str(self.command(sql, url=self.app)[0][0]).split()


@pytest.fixture
def database(shared: Postgres) -> Database:
    return Database(shared)


def test_the_schema_says_its_format(database: Database) -> None:
    install(database.url)
    assert database.command("SELECT lockfast.format_v1()") == [(FORMAT,)]


def test_a_schema_that_was_not_upgraded_says_what_to_do(database: Database) -> None:
    database.install_format_0()
    with lockfast.connect(database.app) as client:
        with pytest.raises(EngineRefused, match=r"claim_v2.*run .*install\(url\)"):
            client.lock("x").acquire(timeout=1)
        install(database.url)
        client.lock("x").acquire(timeout=5).release()


@pytest.mark.parametrize("upgraded", [False, True])
@pytest.mark.parametrize("call", OLD_CALLS)
def test_a_client_of_format_0_is_refused_in_words(
    database: Database, call: str, *, upgraded: bool
) -> None:
    if upgraded:
        database.install_format_0()
    install(database.url, role=None if upgraded else "app")
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=BOTH):
        database.command(call, url=database.app)


def test_an_upgrade_gives_the_users_of_format_0_their_rights(database: Database) -> None:
    database.install_format_0()
    for _ in range(2):
        install(database.url)
        do_everything(database.app)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            database.command("DELETE FROM lockfast.claim", url=database.app)


def test_claims_of_format_0_block_their_name_until_they_expire(database: Database) -> None:
    database.install_format_0()
    ticket = int(database.claim_in_format_0("a", 2.0)[1])
    assert database.claim_in_format_0("b", 2.0)[2] == "f"
    began = time.monotonic()
    stored = database.command("SELECT * FROM lockfast.claim ORDER BY ticket")
    install(database.url)
    assert [row[: len(stored[0])] for row in database.command("SELECT * FROM lockfast.claim")] == (
        stored
    )
    assert database.command("SELECT DISTINCT kind FROM lockfast.claim") == [(0,)]
    with lockfast.connect(database.app) as client:
        for lock in (client.lock("x"), client.semaphore("x", 1)):
            with pytest.raises(EngineRefused, match=BOTH):
                lock.acquire(timeout=1)
            with pytest.raises(EngineRefused, match=BOTH):
                lock.try_acquire()
        client.lock("y").acquire(timeout=1).release()
        time.sleep(max(0.0, began + 2.1 - time.monotonic()))
        with client.lock("x", timeout=1) as lease:
            assert lease.token > ticket


def test_a_function_of_format_0_cannot_insert(database: Database) -> None:
    database.install_format_0()
    old = database.command("SELECT pg_get_functiondef('lockfast.claim_v1'::regproc)")[0][0]
    install(database.url)
    database.command(str(old).replace("sweep_v1", "sweep_v2"))
    with pytest.raises(psycopg.errors.NotNullViolation, match="kind"):
        database.command(OLD_CALLS[0])


def test_an_installation_of_format_0_is_refused_in_words_and_changes_nothing(
    database: Database,
) -> None:
    install(database.url)
    before = database.command(OURS)
    with pytest.raises(psycopg.errors.FeatureNotSupported, match=BOTH):
        database.command(FORMAT_0)
    assert database.command(OURS) == before
    database.command("DELETE FROM lockfast.bucket WHERE b = 7")
    install(database.url)  # one of this format may
    assert database.command("SELECT count(*) FROM lockfast.bucket") == [(1024,)]


def test_a_schema_of_a_higher_format_is_not_installed_over(database: Database) -> None:
    install(database.url)
    database.command(
        "CREATE OR REPLACE FUNCTION lockfast.format_v1() RETURNS integer LANGUAGE sql IMMUTABLE "
        "AS 'SELECT 2'"
    )
    before = database.command(OURS)
    with pytest.raises(EngineRefused, match=rf"format 2.*format {FORMAT}"):
        install(database.url)
    assert database.command(OURS) == before


class Crowd:
    """Clients that acquire and release until they are told to stop."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._mutex = threading.Lock()
        self._inside: dict[str, int] = {}
        self.rounds = 0
        self.errors: list[BaseException] = []
        self.most: dict[str, int] = {}
        jobs = [self._block, self._block, self._block, self._run_tasks]
        self._threads = [threading.Thread(target=self._watch, args=(job,)) for job in jobs]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(30)

    def _watch(self, job: object) -> None:
        try:
            assert callable(job)
            job()
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            self.errors.append(error)

    def _count(self, name: str, change: int) -> None:
        with self._mutex:
            self._inside[name] = self._inside.get(name, 0) + change
            self.most[name] = max(self.most.get(name, 0), self._inside[name])
            self.rounds += change > 0

    def _block(self) -> None:
        with (
            lockfast.connect(self._url) as client,
            client.lock(f"kept {id(client)}", ttl=2) as kept,
        ):
            while not self._stop.is_set():
                with client.lock("lock", timeout=20):
                    self._count("lock", 1)
                    time.sleep(0.002)
                    self._count("lock", -1)
                with client.semaphore("permits", 2, timeout=20):
                    self._count("permits", 1)
                    time.sleep(0.002)
                    self._count("permits", -1)
                kept.ensure_held()

    def _run_tasks(self) -> None:
        async def task(client: aio.AsyncClient) -> None:
            while not self._stop.is_set():
                async with client.lock("lock", timeout=20):
                    self._count("lock", 1)
                    await asyncio.sleep(0.002)
                    self._count("lock", -1)

        async def play() -> None:
            async with aio.connect(self._url) as client, asyncio.TaskGroup() as group:
                for _ in range(2):
                    group.create_task(task(client))

        asyncio.run(play())


@pytest.mark.parametrize("alters", [False, True])
def test_clients_at_work_do_not_notice_an_installation(database: Database, *, alters: bool) -> None:
    install(database.url, role="app")
    with Crowd(database.app) as crowd:
        for number in range(10):
            if alters:  # what an upgrade does to the tables
                database.command(
                    "SET lock_timeout = '5s'; BEGIN; "
                    "LOCK TABLE lockfast.bucket, lockfast.claim IN ACCESS EXCLUSIVE MODE; "
                    "ALTER TABLE lockfast.claim ALTER COLUMN kind SET DEFAULT 0; "
                    f"ALTER TABLE lockfast.claim ADD COLUMN later{number} text DEFAULT 'x'; COMMIT"
                )
            install(database.url)
            before, until = crowd.rounds, time.monotonic() + 10
            while crowd.rounds < before + 10 and time.monotonic() < until:
                time.sleep(0.01)
    assert not crowd.errors, crowd.errors
    assert crowd.most["lock"] == 1
    assert crowd.most["permits"] <= 2
    assert crowd.rounds >= 100
    assert database.command("SELECT count(*) FROM lockfast.claim") == [(0,)]


def test_an_installation_that_changes_no_table_waits_for_no_transaction(database: Database) -> None:
    install(database.url, role="app")
    with psycopg.connect(database.url) as other:
        other.execute("SELECT lockfast.renew_v2('{x}', '{a}')")
        other.execute("INSERT INTO lockfast.broken VALUES ('x', 'x', 0, '')")
        began = time.monotonic()
        install(database.url)
        assert time.monotonic() - began < 5
