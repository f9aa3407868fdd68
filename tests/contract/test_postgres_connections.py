"""How the PostgreSQL engine connects, and what it leaves behind at the server."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg
import pytest

import lockfast
from lockfast import EngineUnavailable, LockfastError, NotAcquired, aio
from lockfast.engines.postgres import install
from lockfast.engines.postgres.url import Address
from lockfast.url import parse
from tests.servers import Postgres, wait_until
from tests.servers.process import free_port

BUCKET = "UPDATE lockfast.bucket SET seen = seen WHERE b = lockfast.bucket_v1('x')"
IDLE = "SELECT pid FROM pg_stat_activity WHERE application_name = 'lockfast' AND state = 'idle'"
MINE = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lockfast'"


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(config={"fsync": "off"}) as server:
        install(server.url)
        yield server


@contextmanager
def hole() -> Iterator[int]:
    """Give a port that drops what it is sent, as a host that is switched off does: a listener whose
    queue is full.
    """
    with ExitStack() as sockets:
        listener = sockets.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = sockets.enter_context(socket.socket())
            filler.setblocking(False)  # noqa: FBT003  # the only way to say it
            with suppress(BlockingIOError):
                filler.connect(listener.getsockname())
        time.sleep(0.2)
        yield listener.getsockname()[1]


def backends(server: Postgres) -> int:
    return int(server.command(MINE)[0][0])


def test_calls_that_come_too_late_do_not_leave_their_connections_waiting_at_the_server(
    server: Postgres,
) -> None:
    stop = time.monotonic() + 4

    def hurry(client: lockfast.Client) -> None:
        while time.monotonic() < stop:
            with suppress(LockfastError):
                client.lock("x", ttl=10).acquire(timeout=0.2).release()

    with psycopg.connect(server.url) as blocker, lockfast.connect(server.url) as client:
        blocker.execute(BUCKET)  # what a commit holds that waits for its standby
        threads = [threading.Thread(target=hurry, args=(client,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        seen = []
        while time.monotonic() < stop:
            seen.append(backends(server))
            time.sleep(0.1)
        for thread in threads:
            thread.join(10)
        blocker.rollback()
        assert max(seen) <= 4 + 4 + 1, seen  # at work, on their way out, and the heart's
        client.lock("x").acquire(timeout=5).release()


def test_an_asyncio_call_that_comes_too_late_ends_at_the_server(server: Postgres) -> None:
    async def play() -> None:
        async with aio.connect(server.url) as client:
            for _ in range(5):
                with suppress(LockfastError):
                    await client.lock("x").acquire(timeout=0.1)

    with psycopg.connect(server.url) as blocker:
        blocker.execute(BUCKET)
        asyncio.run(play())
        wait_until(lambda: backends(server) == 0, "all are gone", 1.5)


def test_a_claim_whose_task_is_cancelled_leaves_the_idle_connections(server: Postgres) -> None:
    async def play() -> None:
        async with aio.connect(server.url) as client:
            async with client.lock("y"), client.lock("z"):
                pass
            first = asyncio.create_task(client.lock("x").acquire())
            waits = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
            await asyncio.to_thread(wait_until, lambda: bool(server.command(waits)), "it waits")
            # Another connection, which is idle while the first claim is cancelled.
            async with client.lock("y"):
                pass
            before = set(server.command(IDLE))
            assert before
            first.cancel()
            with suppress(asyncio.CancelledError):
                await first
            open_ = "SELECT pid FROM pg_stat_activity WHERE application_name = 'lockfast'"
            assert set(server.command(open_)) >= before  # the heart may use one of them

    with psycopg.connect(server.url) as blocker:
        blocker.execute(BUCKET)
        asyncio.run(play())


def test_a_wait_for_a_bucket_ends_at_the_server_by_itself(server: Postgres) -> None:
    with psycopg.connect(server.url) as blocker, psycopg.connect(server.url) as other:
        blocker.execute(BUCKET)
        started = time.monotonic()
        with pytest.raises(psycopg.errors.LockNotAvailable):
            other.execute("SELECT lockfast.renew_v2('{x}', '{a}')")
        assert 1.5 < time.monotonic() - started < 5


@pytest.mark.parametrize("mode", ["threads", "asyncio"])
def test_a_host_that_drops_packets_does_not_keep_a_client_from_the_next_one(
    server: Postgres, mode: str
) -> None:
    with hole() as port:
        url = f"postgresql://postgres@127.0.0.1:{port},{server.host}:{server.port}/postgres"
        if mode == "threads":
            with lockfast.connect(url) as client:
                client.lock("hosts").acquire(timeout=10).release()
                started = time.monotonic()
                client.lock("hosts").acquire(timeout=10).release()
        else:

            async def play() -> float:
                async with aio.connect(url) as client:
                    await (await client.lock("hosts").acquire(timeout=10)).release()
                    started = time.monotonic()
                    await (await client.lock("hosts").acquire(timeout=10)).release()
                    return started

            started = asyncio.run(play())
        assert time.monotonic() - started < 1.5


def test_the_host_that_answered_last_is_tried_first(server: Postgres) -> None:
    with hole() as port:
        url = f"postgresql://postgres@127.0.0.1:{port},{server.host}:{server.port}/postgres"
        with lockfast.connect(url) as client:
            client.lock("first").acquire(timeout=10).release()
            server.command(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'lockfast'"
            )
            started = time.monotonic()
            client.lock("first").acquire(timeout=10).release()
            assert time.monotonic() - started < 2


@pytest.mark.parametrize("mode", ["threads", "asyncio"])
def test_a_standby_whose_name_is_looked_up_slowly_does_not_hold_up_a_reconnection(
    server: Postgres, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = threading.Event()
    asked: list[str] = []

    def look_up(host: str, port: int | None, *rest: int, **more: int) -> object:
        asked.append(host)
        if host != "standby.test":
            host = "127.0.0.1" if host == "primary.test" else host
            return plainly(host, port, *rest, **more)
        if slow.is_set():
            time.sleep(3)
        raise socket.gaierror(socket.EAI_AGAIN, "no answer")

    plainly = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr("lockfast.engines.sql.polling.getaddrinfo", look_up)
    port = server.port
    url = f"postgresql://postgres@standby.test:{port},primary.test:{port}/postgres"

    def cut() -> float:
        slow.set()
        server.command(MINE.replace("count(*)", "pg_terminate_backend(pid)"))
        asked.clear()
        return time.monotonic()

    async def play() -> float:
        async with aio.connect(url) as client:
            await (await client.lock("names").acquire(timeout=10)).release()
            started = cut()
            await (await client.lock("names").acquire(timeout=2)).release()
            return time.monotonic() - started

    if mode == "threads":
        with lockfast.connect(url) as client:
            client.lock("names").acquire(timeout=10).release()
            started = cut()
            client.lock("names").acquire(timeout=2).release()
            took = time.monotonic() - started
    else:
        took = asyncio.run(play())
    assert took < 2
    assert "primary.test" in asked  # its address may be another now
    assert "standby.test" not in asked


def test_no_host_at_all_is_an_error_at_the_deadline_that_names_each() -> None:
    ports = [free_port(), free_port()]
    url = f"postgresql://postgres@127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/postgres"
    started = time.monotonic()
    with lockfast.connect(url) as client, pytest.raises((LockfastError, NotAcquired)) as caught:
        client.lock("x").acquire(timeout=1)
    assert time.monotonic() - started < 3
    assert all(str(port) in str(caught.value) for port in ports), caught.value
    assert "no connection: no connection" not in str(caught.value)


@pytest.mark.parametrize("mode", ["threads", "asyncio"])
def test_a_standby_is_waited_for_until_it_is_promoted(server: Postgres, mode: str) -> None:
    with Postgres(replica_of=server) as standby:
        promoting = threading.Timer(1.0, standby.promote)

        def play() -> None:
            with lockfast.connect(standby.url) as client:
                assert client.guarantees().engine
                promoting.start()
                client.lock("failover").acquire(timeout=15).release()

        async def play_async() -> None:
            async with aio.connect(standby.url) as client:
                promoting.start()
                await (await client.lock("failover").acquire(timeout=15)).release()

        try:
            if mode == "threads":
                play()
            else:
                asyncio.run(play_async())
        finally:
            promoting.join()


def test_a_standby_that_stays_one_is_unavailable_and_not_refused(server: Postgres) -> None:
    with (
        Postgres(replica_of=server) as standby,
        lockfast.connect(standby.url) as client,
        pytest.raises(EngineUnavailable, match="25006"),
    ):
        client.lock("x").acquire(timeout=1)


def test_a_server_without_wal_functions_gives_locks(server: Postgres) -> None:
    """Aurora has none; here they fail in another way, as far as a caller can tell."""
    server.command("CREATE DATABASE aurora")
    url = f"{server.url.removesuffix('/postgres')}/aurora"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET allow_system_table_mods = on")
        connection.execute("ALTER FUNCTION pg_catalog.pg_walfile_name(pg_lsn) RENAME TO gone")
    install(url)
    with lockfast.connect(url) as client:
        client.lock("x").acquire(timeout=2).release()


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgresql://app:x@db.example.com/app", "prefer"),
        ("postgresql://app:x@db.example.com/app?sslmode=require", "require"),
        ("postgresql://app:x@db.example.com/app?sslmode=verify-ca", "verify-ca"),
        ("postgresql://app:x@localhost,10.0.0.1/app", "prefer"),
        ("postgresql://app:x@db.example.com/app?sslmode=verify-full", None),
        ("postgresql://app:x@db.example.com/app?sslrootcert=system", None),
        ("postgresql://app:x@localhost/app", None),
        ("postgresql://app:x@127.0.0.2/app", None),
        ("postgresql:///app?host=/var/run/postgresql", None),
    ],
)
def test_a_server_on_another_machine_has_to_prove_who_it_is(url: str, mode: str | None) -> None:
    assert Address.of(parse(url)).unverified == mode


def test_a_password_that_went_to_an_unproven_server_is_a_finding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Postgres(config={"fsync": "off"}) as server:
        install(server.url)
        server.command("ALTER ROLE postgres PASSWORD 'secret'")
        (server.data_path / "pg_hba.conf").write_text("host all all all scram-sha-256\n", "utf-8")
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
        url = server.url.replace("postgres@", "postgres:secret@")

        def settings() -> list[str]:
            with lockfast.connect(url) as client:
                return [finding.setting for finding in client.guarantees().findings]

        wait_until(lambda: _refuses(server), "passwords are asked for")
        assert "sslmode = prefer" not in settings()  # on this machine
        monkeypatch.setattr("lockfast.engines.postgres.url.is_local", lambda _host: False)
        assert "sslmode = prefer" in settings()


def _refuses(server: Postgres) -> bool:
    try:
        psycopg.connect(server.url).close()
    except psycopg.OperationalError:
        return True
    return False
