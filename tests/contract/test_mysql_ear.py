"""Pushes on MariaDB: a waiter is woken by killing its own query, and never another one."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pymysql
import pytest

from lockfast.engines.mysql import install, messages
from lockfast.port import Ask, Kind, Shape
from lockfast.testing import Stage
from lockfast.testing.harness.verbs import acquire, release
from tests.contract.benches import MysqlBench
from tests.servers import MariaDB, Proxy

FAR = 2**52  # µs by the server's clock: such a claim is never too late


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        install(server.url)
        yield server


@pytest.fixture
def bench(server: MariaDB) -> MysqlBench:
    return MysqlBench(server)


def call(server: MariaDB, sql: bytes) -> list[tuple[object, ...]]:
    with closing(server.connect(database="lockfast")) as connection, connection.cursor() as cursor:
        cursor.execute(sql.decode())
        return list(cursor.fetchall())


def number_of(connection: pymysql.connections.Connection[pymysql.cursors.Cursor]) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        (number,) = cursor.fetchone() or (0,)
        return int(number)


def ask(client: str, name: str = "x") -> Ask:
    ident = client + secrets.token_hex(5)
    return Ask(ident, Shape(name, 30.0), queue=True, not_after=0.0, payload=b"")


def hand_over(server: MariaDB, client: str) -> Ask:
    """Grant a lock to a waiter of a client, and return the waiter."""
    name = secrets.token_hex(4)
    holder, waiter = ask(secrets.token_hex(11), name), ask(client, name)
    for each in (holder, waiter):
        call(server, messages.claim([each], [FAR], 0))
    call(server, messages.resign([holder], None))
    return waiter


def test_a_note_that_nobody_heard_is_found_at_the_next_look(server: MariaDB) -> None:
    client = secrets.token_hex(11)
    ((seen, _, _),) = call(server, messages.ear(client, -1))
    waiter = hand_over(server, client)
    began = time.monotonic()
    ((count, notes, slept),) = call(server, messages.ear(client, int(str(seen))))
    assert time.monotonic() - began < 0.4
    assert (int(str(count)), slept) == (int(str(seen)) + 1, 0)
    assert isinstance(notes, bytes)
    assert notes[:16].hex() == waiter.id


def test_a_look_sleeps_for_half_a_second_if_there_is_nothing(server: MariaDB) -> None:
    client = secrets.token_hex(11)
    ((seen, _, _),) = call(server, messages.ear(client, -1))
    began = time.monotonic()
    call(server, messages.ear(client, int(str(seen))))
    assert time.monotonic() - began >= 0.45


def test_a_push_after_a_restart_ends_no_query_of_an_application(server: MariaDB) -> None:
    """The application has the number that the connection of the ear had."""
    client = secrets.token_hex(11)
    with closing(server.connect()) as ear, ear.cursor() as cursor:
        cursor.execute(messages.hold_ear(client).decode())
        number = number_of(ear)
        server.kill()
    server.start()
    applications = []
    while True:
        application = server.connect()
        applications.append(application)
        if number_of(application) == number:
            break
        assert number_of(application) < number, "the number was given to another connection"
    ended: list[object] = []

    def work() -> None:
        try:
            with application.cursor() as cursor:
                cursor.execute("SELECT SLEEP(1.5)")
                ended.append(cursor.fetchone())
        except pymysql.OperationalError as error:
            ended.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(0.3)
    for _ in range(5):
        hand_over(server, client)
    thread.join()
    for each in applications:
        each.close()
    assert ended == [(0,)]


def test_a_push_ends_no_query_of_the_one_who_releases(server: MariaDB) -> None:
    """A program may hold the ear's lock in the connection in which it releases."""
    client = secrets.token_hex(11)
    holder, waiter = ask(secrets.token_hex(11), "own"), ask(client, "own")
    for each in (holder, waiter):
        call(server, messages.claim([each], [FAR], 0))
    with closing(server.connect(database="lockfast")) as connection, connection.cursor() as cursor:
        cursor.execute(messages.hold_ear(client).decode())
        cursor.execute(messages.resign([holder], None).decode())
        assert cursor.fetchall() == ((b"t",),)


def test_many_grants_at_once_wake_every_client(server: MariaDB) -> None:
    writer = Ask(
        secrets.token_hex(16),
        Shape("w", 30.0, Kind.READ_WRITE, 2**31 - 1, 2**31 - 1),
        queue=True,
        not_after=0.0,
        payload=b"",
    )
    shape = Shape("w", 30.0, Kind.READ_WRITE, 2**31 - 1, 1)
    readers = [
        Ask(secrets.token_hex(16), shape, queue=True, not_after=0.0, payload=b"") for _ in range(70)
    ]
    call(server, messages.claim([writer], [FAR], 0))
    call(server, messages.claim(readers, [FAR] * len(readers), 0))
    call(server, messages.resign([writer], None))
    for reader in readers:
        ((_, notes, _),) = call(server, messages.ear(reader.id[: messages.CLIENT], -1))
        assert isinstance(notes, bytes)
        assert bytes.fromhex(reader.id) in notes


def test_a_waiter_behind_a_nat_that_forgot_its_ear_is_woken(stage: Stage, server: MariaDB) -> None:
    """No end of the connection is seen: the ear has a deadline of its own."""
    with Proxy(server.host, server.port) as proxy:
        stage.bench.url = server.url.replace(f":{server.port}", f":{proxy.port}")  # type: ignore[attr-defined]
        client = stage.client()
        stage.bench.url = server.url  # type: ignore[attr-defined]
        other = stage.client()

        async def play() -> float:
            lease = await acquire(other.lock("x", ttl=30.0), 5.0)
            waiting = stage.mode.start(acquire(client.lock("x", ttl=30.0), 20.0))
            await stage.mode.sleep(1.0)
            proxy.cut()
            await stage.mode.sleep(0.6)
            await release(lease)
            began = time.monotonic()
            await stage.mode.sleep(0.2)
            proxy.heal()
            await release(await waiting.result())
            return time.monotonic() - began

        assert stage.mode.run(play()) < 5.0


def test_an_ear_that_cannot_connect_looks_all_the_same(stage: Stage, server: MariaDB) -> None:
    server.command("CREATE OR REPLACE USER few@'%' WITH MAX_USER_CONNECTIONS 2")
    server.command("GRANT EXECUTE ON lockfast.* TO few@'%'")
    stage.bench.url = server.address("few")  # type: ignore[attr-defined]
    client = stage.client()
    stage.bench.url = server.url  # type: ignore[attr-defined]
    other = stage.client()

    async def play() -> float:
        lease = await acquire(other.lock("y", ttl=30.0), 5.0)
        waiting = stage.mode.start(acquire(client.lock("y", ttl=30.0), 20.0))
        await stage.mode.sleep(1.0)
        began = time.monotonic()
        await release(lease)
        await release(await waiting.result())
        return time.monotonic() - began

    assert stage.mode.run(play()) < 3.0


def test_an_ear_connects_only_while_somebody_waits(stage: Stage, server: MariaDB) -> None:
    def ears() -> int:
        rows = server.command("SELECT INFO FROM information_schema.PROCESSLIST")
        return sum("lockfast_ear" in str(info) for (info,) in rows)

    client = stage.client()

    async def play() -> None:
        lease = await acquire(client.lock("z", ttl=30.0), 5.0)
        await stage.mode.sleep(0.7)
        assert ears() == 0
        waiting = stage.mode.start(acquire(client.lock("z", ttl=30.0), 20.0))
        while not ears():
            await stage.mode.sleep(0.1)
        await release(lease)
        await release(await waiting.result())

    stage.mode.run(play())


def test_an_ear_leaves_when_nobody_waits_any_more(stage: Stage, server: MariaDB) -> None:
    """One that stayed would be closed by the server, or dropped by a NAT, before the next wait."""
    client = stage.client()

    async def play() -> None:
        lease = await acquire(client.lock("y", ttl=3.0), 20.0)
        ((mine,),) = server.command(
            "SELECT LOWER(HEX(LEFT(id, 11))) FROM lockfast.lockfast_claim WHERE name = 'y'"
        )

        def there() -> bool:
            return server.command("SELECT IS_USED_LOCK(%s)", f"lockfast_{mine}") != [(None,)]

        waiting = stage.mode.start(acquire(client.lock("y", ttl=3.0), 20.0))
        while not there():
            await stage.mode.sleep(0.1)
        await release(lease)
        await release(await waiting.result())
        ends = time.monotonic() + 20.0
        while there():
            assert time.monotonic() < ends
            await stage.mode.sleep(0.1)

    stage.mode.run(play())
