"""How the MySQL engine connects, and which failures end a connection."""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from lockfast import EngineError, EngineUnavailable
from lockfast.engines import opener
from lockfast.engines.mysql import install
from lockfast.engines.mysql.messages import bucket
from lockfast.port import Ask, Engine, Shape
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.servers import MariaDB, Proxy, wait_until

FREE, SLOW = "free", "slow"


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        install(server.url)
        yield server


@pytest.fixture
def proxy(server: MariaDB) -> Iterator[Proxy]:
    with Proxy(server.host, server.port) as proxy:
        yield proxy


def through(server: MariaDB, proxy: Proxy) -> str:
    return server.url.replace(f":{server.port}", f":{proxy.port}")


@pytest.fixture
def engine(server: MariaDB, proxy: Proxy) -> Iterator[Engine]:
    engine = opener(parse(through(server, proxy)), Threads())()
    yield engine
    drive(engine.close())


def ask(name: str) -> Ask:
    return Ask(
        secrets.token_hex(16), Shape(name, 60.0), queue=True, not_after=now() + 60, payload=b""
    )


@contextmanager
def held(server: MariaDB, name: str) -> Iterator[None]:
    """Keep the bucket of a name, as a transaction of somebody else does."""
    assert bucket(FREE) != bucket(SLOW)
    with server.connect(database="lockfast", autocommit=False) as other, other.cursor() as cursor:
        cursor.execute("SELECT * FROM lockfast_bucket WHERE b = %s FOR UPDATE", (bucket(name),))
        yield
        other.rollback()


def waiting(server: MariaDB, count: int = 1) -> bool:
    """Return whether so many statements wait for the row of a bucket."""
    sql = (
        "SELECT COUNT(*) FROM information_schema.processlist "
        "WHERE info LIKE '%lockfast_bucket%' AND id <> CONNECTION_ID()"
    )
    return bool(server.command(sql) == [(count,)])


def claim(engine: Engine, name: str, seconds: float = 30.0) -> Ask:
    mine = ask(name)
    standing = drive(engine.claim(mine, now() + seconds))
    assert standing is not None
    return mine


def test_a_claim_that_is_late_leaves_the_connection_of_the_renewals(
    server: MariaDB, proxy: Proxy, engine: Engine
) -> None:
    mine = claim(engine, FREE)
    drive(engine.renew([mine], now() + 30))
    before = proxy.connections
    with held(server, SLOW), pytest.raises(EngineUnavailable):
        claim(engine, SLOW, 0.2)
    drive(engine.renew([mine], now() + 30))
    assert proxy.connections == before
    drive(engine.resign([mine], now() + 30, doubt=False))


def test_a_claim_that_is_refused_leaves_the_connection_of_the_renewals(
    server: MariaDB, proxy: Proxy, engine: Engine
) -> None:
    mine = claim(engine, FREE)
    drive(engine.renew([mine], now() + 30))
    before = proxy.connections
    server.command("SET GLOBAL read_only = 1")
    try:
        with suppress(EngineError):
            claim(engine, SLOW, 1.0)
    finally:
        server.command("SET GLOBAL read_only = 0")
    drive(engine.renew([mine], now() + 30))
    assert proxy.connections == before
    drive(engine.resign([mine], now() + 30, doubt=False))


def test_a_claim_that_is_late_leaves_connections_that_were_answered_meanwhile(
    server: MariaDB, proxy: Proxy, engine: Engine
) -> None:
    failed: list[BaseException] = []

    def wait() -> None:
        try:
            claim(engine, SLOW, 1.0)
        except EngineUnavailable as error:
            failed.append(error)

    with held(server, SLOW):
        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: proxy.connections == 1, "the claim has connected", 10)
        wait_until(lambda: waiting(server), "it waits for the bucket", 10)
        first = claim(engine, FREE)
        thread.join(10)
    assert failed
    before = proxy.connections
    second = claim(engine, FREE)
    assert proxy.connections == before
    drive(engine.resign([first, second], now() + 30, doubt=False))


def test_a_claim_that_is_late_ends_connections_that_are_idle_since_before(
    server: MariaDB, proxy: Proxy, engine: Engine
) -> None:
    """They may be as broken as its own, and would fail one by one."""
    at_once = [threading.Thread(target=claim, args=(engine, FREE)) for _ in range(3)]
    with held(server, FREE):
        for thread in at_once:
            thread.start()
        wait_until(lambda: waiting(server, len(at_once)), "each has a connection", 10)
    for thread in at_once:
        thread.join(10)
    before = proxy.connections
    with held(server, SLOW), pytest.raises(EngineUnavailable):
        claim(engine, SLOW, 0.2)
    claim(engine, FREE)
    assert proxy.connections == before + 1


def test_a_claim_that_is_late_ends_at_the_server(
    server: MariaDB, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would wait for the bucket and commit, before those that are still waited for."""
    patient = "innodb_lock_wait_timeout = 90, max_statement_time = 90"
    monkeypatch.setattr("lockfast.engines.mysql.link.LIMITED", f"SET SESSION {patient}")
    with held(server, SLOW):
        with pytest.raises(EngineUnavailable):
            claim(engine, SLOW, 0.3)
        wait_until(lambda: waiting(server, 0), "nothing waits for the bucket", 30)


def test_a_login_that_takes_longer_than_a_call_is_continued_by_the_next(
    proxy: Proxy, engine: Engine
) -> None:
    """Otherwise a server that is slow is never reached, and logins keep it slow."""
    proxy.delay(0.0, replies=0.15)  # a login has four
    for _ in range(40):
        try:
            mine = claim(engine, FREE, 0.3)
        except EngineUnavailable:
            continue
        break
    else:
        pytest.fail("no call had a connection")
    proxy.heal()
    drive(engine.resign([mine], now() + 30, doubt=False))


def test_a_login_whose_caller_is_cancelled_is_continued_by_the_next(
    server: MariaDB, proxy: Proxy
) -> None:
    """Programs limit a call by `asyncio.timeout`, for example to the time of a web request."""

    async def play() -> None:
        runtime = Aio()
        runtime.enter()
        engine = opener(parse(through(server, proxy)), runtime)()
        proxy.delay(0.0, replies=0.15)  # a login has four
        mine = ask(FREE)
        for _ in range(40):
            with suppress(TimeoutError):
                async with asyncio.timeout(0.3):
                    await engine.claim(mine, now() + 30)
                break
        else:
            pytest.fail("no call had a connection")
        proxy.heal()
        await engine.resign([mine], now() + 30, doubt=True)
        await engine.close()

    asyncio.run(play())


def test_a_login_that_is_not_finished_when_the_client_ends_is_closed(
    server: MariaDB, proxy: Proxy
) -> None:
    engine = opener(parse(through(server, proxy)), Threads())()
    proxy.delay(0.0, replies=0.6)
    with pytest.raises(EngineUnavailable):
        claim(engine, FREE, 0.2)
    drive(engine.close())
    proxy.heal()
    wait_until(lambda: proxy.open_connections == 0, "the connection is closed")


@pytest.mark.parametrize("way", ["cancelled", "timeout"])
def test_a_claim_whose_task_is_cancelled_leaves_all_other_connections(
    server: MariaDB, proxy: Proxy, way: str
) -> None:
    async def play() -> None:
        runtime = Aio()
        runtime.enter()
        engine = opener(parse(through(server, proxy)), runtime)()
        mine, late = ask(FREE), ask(SLOW)
        await engine.claim(mine, now() + 30)
        await engine.renew([mine], now() + 30)
        with held(server, SLOW):
            first = asyncio.create_task(engine.claim(late, now() + 30))
            await asyncio.to_thread(wait_until, lambda: waiting(server), "it waits", 10)
            # A second one, which is idle while the first is cancelled.
            await engine.resign([ask("another")], now() + 30, doubt=False)
            before = proxy.connections
            if way == "cancelled":
                first.cancel()
            with suppress(asyncio.CancelledError, TimeoutError):
                async with asyncio.timeout(None if way == "cancelled" else 0.0):
                    await first
            assert first.cancelled()
        await engine.renew([mine], now() + 30)
        await engine.resign([mine], now() + 30, doubt=False)
        assert proxy.connections == before
        await engine.close()

    asyncio.run(play())
