"""Pushes on MariaDB: a waiter is woken by killing its own query, and never another one."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pymysql
import pytest

from lockfast.engines import opener
from lockfast.engines.mysql import install, messages
from lockfast.engines.mysql.ear import Ear
from lockfast.engines.mysql.engine import MysqlEngine
from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.threads import ThreadTransport
from lockfast.engines.mysql.url import Address
from lockfast.port import EVERYONE, Ask, Kind, Shape, Wake, everyone_of
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.testing import Stage
from lockfast.testing.harness.verbs import acquire, release
from lockfast.url import parse
from tests.contract.benches import MysqlBench
from tests.servers import MariaDB, Proxy, wait_until

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
    ((seen, _, _, _),) = call(server, messages.ear(client, -1))
    waiter = hand_over(server, client)
    began = time.monotonic()
    ((count, notes, _, slept),) = call(server, messages.ear(client, int(str(seen))))
    assert time.monotonic() - began < 0.4
    assert (int(str(count)), slept) == (int(str(seen)) + 1, 0)
    assert isinstance(notes, bytes)
    assert notes[:16].hex() == waiter.id


def test_a_look_sleeps_for_half_a_second_if_there_is_nothing(server: MariaDB) -> None:
    client = secrets.token_hex(11)
    ((seen, _, _, _),) = call(server, messages.ear(client, -1))
    began = time.monotonic()
    call(server, messages.ear(client, int(str(seen))))
    assert time.monotonic() - began >= 0.45


def test_a_push_after_a_restart_ends_no_query_of_an_application(server: MariaDB) -> None:
    """The application has the number that the connection of the ear had."""
    client = secrets.token_hex(11)
    with closing(server.connect()) as ear, ear.cursor() as cursor:
        cursor.execute(messages.hold_ear(client).decode())
        number = number_of(ear)
        time.sleep(1.5)  # the server writes its log once a second, and the tables are in it
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
        ((_, notes, _, _),) = call(server, messages.ear(reader.id[: messages.CLIENT], -1))
        assert isinstance(notes, bytes)
        assert bytes.fromhex(reader.id) in notes


def heard(engine: MysqlEngine) -> list[Wake]:
    """Listen until there is a wake."""
    while not (wakes := drive(engine.listen(now() + 5))):
        pass
    return wakes


def test_an_ear_that_connects_again_wakes_nobody_twice(server: MariaDB) -> None:
    engine = opener(parse(server.url), Threads())()
    assert isinstance(engine, MysqlEngine)
    holder = ask(secrets.token_hex(11), "twice")
    call(server, messages.claim([holder], [FAR], 0))
    waiter = Ask(secrets.token_hex(16), holder.shape, True, now() + 9, b"")  # noqa: FBT003  # as the port has it
    client = waiter.id[: messages.CLIENT]
    engine.hear(client, on=True)
    try:
        assert heard(engine) == [everyone_of(client)]
        drive(engine.claim(waiter, now() + 9))
        assert heard(engine) == [EVERYONE]  # the first look of its ear
        call(server, messages.resign([holder], None))
        (wake,) = heard(engine)
        assert wake.id == waiter.id
        engine._ear.close()
        assert heard(engine) == [EVERYONE]
        drive(engine.resign([waiter], now() + 5, doubt=False))
    finally:
        drive(engine.close())


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


@contextmanager
def listening(server: MariaDB, client: str) -> Iterator[tuple[Ear, Callable[[float], list[Wake]]]]:
    """Give an ear without a client around it, and a function that listens for some seconds."""
    runtime = Threads()
    address = Address.of(parse(server.url))
    transport = ThreadTransport(address, runtime.bell(), runtime.turns(1), runtime.now)
    ear = Ear(transport, runtime.now)
    try:
        yield ear, lambda seconds: drive(ear.listen(client, runtime.now() + seconds))
    finally:
        ear.close()
        drive(transport.close())


def test_a_wake_needs_no_further_request(server: MariaDB) -> None:
    """The query that answers was sent before the first one was killed. On a slow machine, both may
    have ended before the lock was released: then try again.
    """
    client, sent = secrets.token_hex(11), list[bytes]()
    with (
        listening(server, client) as (_, listen),
        closing(server.connect(database="lockfast")) as connection,
        connection.cursor() as cursor,
    ):
        for _ in range(10):
            holder, waiter = ask(secrets.token_hex(11), "wake"), ask(client, "wake")
            for each in (holder, waiter):
                cursor.execute(messages.claim([each], [FAR], 0).decode())
            while listen(0.05):  # then both queries are under way
                pass
            cursor.execute(messages.resign([holder], None).decode())
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(Link, "send", lambda _self, sql, **_: sent.append(sql))
                wakes = listen(1.0)
            cursor.execute(messages.resign([waiter], None).decode())
            if wakes or sent:
                break
        assert [wake.id for wake in wakes] == [waiter.id]
        assert sent == []


def test_an_ear_gets_its_lock_when_a_broken_connection_has_gone(server: MariaDB) -> None:
    client = secrets.token_hex(11)
    used = f"SELECT IS_USED_LOCK('lockfast_{client}')"
    with listening(server, client) as (_, listen):
        with closing(server.connect()) as last, last.cursor() as cursor:
            cursor.execute(messages.hold_ear(client).decode())
            listen(2.0)
            number = number_of(last)
            assert server.command(used) == [(number,)]
        wait_until(lambda: server.command(used) == [(None,)], "the last connection has gone")

        def held() -> bool:
            listen(0.1)
            return server.command(used) != [(None,)]

        wait_until(held, "the ear has its lock")


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
