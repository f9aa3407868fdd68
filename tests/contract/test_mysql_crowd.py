"""How one MariaDB engine hears many clients, as a replica of the service does."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial

import pytest

from lockfast import EngineRefused
from lockfast.engines import opener
from lockfast.engines.mysql import install, messages
from lockfast.engines.mysql.crowd import CHUNK
from lockfast.engines.mysql.engine import MysqlEngine
from lockfast.engines.mysql.failures import INTERRUPTED
from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.results import Row, ServerError
from lockfast.port import CLIENT, EVERYONE, Ask, Shape, Standing, Wake, everyone_of
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.servers import MariaDB, Proxy, wait_until


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        install(server.url)
        for user in ("app", "other"):
            server.command(f"CREATE USER {user}@'%'")
            install(server.url, role=user)
        yield server


@contextmanager
def engine_at(url: str) -> Iterator[MysqlEngine]:
    engine = opener(parse(url), Threads())()
    assert isinstance(engine, MysqlEngine)
    try:
        yield engine
    finally:
        drive(engine.close())


@pytest.fixture
def engine(server: MariaDB) -> Iterator[MysqlEngine]:
    with engine_at(server.url) as engine:
        yield engine


@pytest.fixture
def other(server: MariaDB) -> Iterator[MysqlEngine]:
    with engine_at(server.url) as engine:
        yield engine


@pytest.fixture
def proxy(server: MariaDB) -> Iterator[Proxy]:
    with Proxy(server.host, server.port) as proxy:
        yield proxy


@pytest.fixture
def far(server: MariaDB, proxy: Proxy) -> Iterator[MysqlEngine]:
    """An engine behind the proxy."""
    with engine_at(server.url.replace(f":{server.port}", f":{proxy.port}")) as engine:
        yield engine


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Collect the statements that engines send."""
    statements: list[bytes] = []
    send = Link.send

    def spy(self: Link, sql: bytes, *, behind: bool = False) -> int:
        statements.append(sql)
        return send(self, sql, behind=behind)

    monkeypatch.setattr(Link, "send", spy)
    return statements


def clients(count: int) -> list[str]:
    return [secrets.token_hex(CLIENT // 2) for _ in range(count)]


def ask(client: str, name: str, ttl: float = 30.0) -> Ask:
    ident = client + secrets.token_hex(5)
    return Ask(ident, Shape(name, ttl), True, now() + 10.0, b"")  # noqa: FBT003  # as the port has it


def blocked(engine: MysqlEngine, other: MysqlEngine, every: list[str]) -> tuple[list[Ask], ...]:
    """Have a claim of each client wait for a claim of its own. Return these claims, and those that
    wait.
    """
    names = [secrets.token_hex(8) for _ in every]
    holders = [ask(clients(1)[0], name) for name in names]
    waiters = [ask(client, name) for client, name in zip(every, names, strict=True)]
    drive(other.claim_all(holders, now() + 20.0))
    for standing in drive(engine.claim_all(waiters, now() + 20.0)):
        assert isinstance(standing, Standing)
        assert not standing.granted
    return holders, waiters


def attend(engine: MysqlEngine, every: list[str]) -> None:
    for client in every:
        engine.hear(client, on=True)
    assert EVERYONE in drive(engine.listen(now() + 5.0))


def begun(engine: MysqlEngine) -> None:
    """Listen until the engine says that it has subscribed. A bell may ring before that."""
    wakes, end = list[Wake](), now() + 30.0
    while EVERYONE not in wakes:
        assert now() < end
        wakes += drive(engine.listen(now() + 5.0))


def until(engine: MysqlEngine, reached: Callable[[], object]) -> list[Wake]:
    """Listen in short rounds, as a heart does, until something was reached."""
    end, wakes = now() + 30.0, list[Wake]()
    while not reached():
        assert now() < end
        wakes += drive(engine.listen(now() + 0.1))
    return wakes


def heard(engine: MysqlEngine, wanted: list[Ask]) -> list[Wake]:
    """Listen until all of these claims are woken."""
    end, wakes = now() + 30.0, list[Wake]()
    while not {each.id for each in wanted} <= {wake.id for wake in wakes}:
        assert now() < end
        wakes += drive(engine.listen(now() + 1.0))
    return wakes


def owner(server: MariaDB, client: str) -> object:
    ((number,),) = server.command("SELECT IS_USED_LOCK(%s)", f"lockfast_{client}")
    return number


def release(other: MysqlEngine, holders: list[Ask]) -> None:
    assert drive(other.resign(holders, now() + 20.0, doubt=False)) == [True] * len(holders)


def test_many_clients_are_heard_on_one_connection(
    server: MariaDB, engine: MysqlEngine, other: MysqlEngine, sent: list[bytes]
) -> None:
    every = clients(CHUNK + 20)
    attend(engine, every)
    holders, waiters = blocked(engine, other, every)
    crowd = engine._crowd
    assert crowd is not None
    until(engine, lambda: all(map(crowd.knows, every)))
    assert len({owner(server, client) for client in every}) == 1
    assert [sql.count(b"GET_LOCK") for sql in sent if b"GET_LOCK" in sql] == [CHUNK, 20]
    release(other, holders)
    heard(engine, waiters)


def test_a_grant_ends_the_query_of_the_ear(
    server: MariaDB, engine: MysqlEngine, other: MysqlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a slow machine, the query may have ended before: then try again."""
    ended: list[int] = []
    receive = Link.receive

    def spy(self: Link) -> tuple[list[Row] | None, int]:
        try:
            return receive(self)
        except ServerError as error:
            ended.append(error.code)
            raise

    every = clients(3)
    attend(engine, every)
    for _ in range(10):
        holders, waiters = blocked(engine, other, every)
        until(engine, lambda: all(owner(server, client) for client in every))
        drive(engine.listen(now() + 0.05))  # then a query is under way
        with monkeypatch.context() as patch:
            patch.setattr(Link, "receive", spy)
            release(other, holders)
            heard(engine, waiters)
        drive(engine.resign(waiters, now() + 5.0, doubt=False))
        if ended:
            break
    assert INTERRUPTED in ended


def test_a_client_that_begins_to_wait_does_not_wait_for_the_query_under_way(
    server: MariaDB, engine: MysqlEngine, other: MysqlEngine, sent: list[bytes]
) -> None:
    def woken(client: str) -> bool:
        return any(messages.wake(client) in each for each in sent)

    first, second = clients(2)
    attend(engine, [first, second])
    blocked(engine, other, [first])
    until(engine, lambda: bool(owner(server, first)))
    assert not woken(first)
    for _ in range(10):  # the query may end in the moment in which it should be woken
        drive(engine.listen(now() + 0.05))
        holders, waiters = blocked(engine, other, [second])
        until(engine, partial(owner, server, second))
        release(other, holders)
        heard(engine, waiters)
        if woken(first):
            break
        (second,) = clients(1)
        engine.hear(second, on=True)
        until(engine, lambda: not engine._hearing.changed)
    assert woken(first)


def test_a_client_that_left_is_free_for_another_replica(
    server: MariaDB, engine: MysqlEngine, other: MysqlEngine
) -> None:
    gone, stays = clients(2)
    attend(engine, [gone, stays])
    blocked(engine, other, [gone, stays])
    until(engine, lambda: bool(owner(server, gone) and owner(server, stays)))
    engine.hear(gone, on=False)
    until(engine, lambda: not owner(server, gone))
    assert owner(server, stays)
    engine.hear(gone, on=True)  # it comes back, and waits still
    until(engine, lambda: bool(owner(server, gone)))


def test_a_lock_that_another_replica_had_is_taken_later(
    server: MariaDB, engine: MysqlEngine, other: MysqlEngine
) -> None:
    every = clients(2)
    attend(engine, every)
    with closing(server.connect()) as last, last.cursor() as cursor:
        cursor.execute(messages.hold_ear(every[0]).decode())
        cursor.execute("SELECT CONNECTION_ID()")
        theirs = (cursor.fetchone() or (0,))[0]
        holders, waiters = blocked(engine, other, every)
        until(engine, lambda: owner(server, every[1]) not in {None, theirs})
        assert owner(server, every[0]) == theirs
        release(other, holders)
        heard(engine, waiters)  # at the next look
        blocked(engine, other, every)
        drive(engine.listen(now() + 0.1))
    wait_until(lambda: owner(server, every[0]) != theirs, "the other connection has gone")
    until(engine, lambda: owner(server, every[0]) is not None)


def test_a_lock_that_is_asked_for_twice_is_given_back_at_once(server: MariaDB) -> None:
    """The statement is repeated if a grant ends it."""
    every = clients(2)
    with closing(server.connect()) as connection, connection.cursor() as cursor:
        for _ in range(2):
            cursor.execute(messages.hold_ears(every).decode())
            assert cursor.fetchall() == (("11",),)
        cursor.execute(messages.leave_ears(every).decode())
        assert [owner(server, client) for client in every] == [None, None]


def test_a_waiter_from_before_the_second_client_came_is_woken(
    engine: MysqlEngine, other: MysqlEngine
) -> None:
    first, second = clients(2)
    engine.hear(first, on=True)
    assert drive(engine.listen(now() + 1.0)) == [everyone_of(first)]
    holders, waiters = blocked(engine, other, [first])
    begun(engine)
    engine.hear(second, on=True)
    begun(engine)
    drive(engine.renew(waiters, now() + 5.0))  # what the heart does then
    drive(engine.listen(now() + 1.0))
    release(other, holders)
    heard(engine, waiters)


def test_notes_that_are_not_kept_any_more_are_told_of(
    server: MariaDB, engine: MysqlEngine, other: MysqlEngine
) -> None:
    every = clients(2)
    attend(engine, every)
    blocked(engine, other, every)
    if EVERYONE not in until(engine, lambda: all(owner(server, client) for client in every)):
        begun(engine)
    slots = sorted({messages.slot(client) for client in every})
    server.command(
        "UPDATE lockfast.lockfast_ear SET n = n + 49, notes = REPEAT('x', 1344) WHERE slot = %s",
        slots[0],
    )
    wanted = {everyone_of(client) for client in every if messages.slot(client) == slots[0]}
    end, wakes = now() + 20.0, set[Wake]()
    while not wanted <= wakes and now() < end:
        wakes |= set(drive(engine.listen(now() + 1.0)))
    assert wakes == wanted


def test_a_note_that_overtakes_the_reply_of_its_claim_is_told_of(
    server: MariaDB, engine: MysqlEngine, other: MysqlEngine
) -> None:
    """Also if it comes with the first look into its slot, of which most notes are old."""
    first, second = clients(2)
    attend(engine, [first, second])
    blocked(engine, other, [first])
    until(engine, lambda: bool(owner(server, first)))
    blocked(engine, other, [second])  # its slot was not looked into yet
    holders, early = blocked(other, other, [second])  # our engine has no reply to that claim
    release(other, holders)
    wanted = {early[0].id, second}
    end, wakes = now() + 20.0, set[str]()
    while not wanted & wakes and now() < end:
        wakes |= {wake.id for wake in drive(engine.listen(now() + 0.5))}
    assert wanted & wakes


def test_a_client_that_left_while_it_began_to_wait_is_free_for_another_replica(
    server: MariaDB, engine: MysqlEngine, other: MysqlEngine
) -> None:
    gone, stays = clients(2)
    attend(engine, [gone, stays])
    blocked(engine, other, [gone, stays])
    engine.hear(gone, on=False)
    until(engine, lambda: bool(owner(server, stays)))
    assert not owner(server, gone)


def test_claims_that_do_not_wait_any_more_are_not_looked_for(
    engine: MysqlEngine, other: MysqlEngine
) -> None:
    every = clients(3)
    attend(engine, every)
    holders, waiters = blocked(engine, other, every)
    crowd = engine._crowd
    assert crowd is not None
    crowd.waiting.catch_up()
    assert set(crowd.waiting.clients()) == set(every)
    drive(engine.resign(waiters[:1], now() + 5.0, doubt=False))
    release(other, holders[1:2])
    drive(engine.renew(waiters[1:2], now() + 5.0))
    crowd.waiting.catch_up()
    assert crowd.waiting.clients() == every[2:]
    short = ask(every[0], holders[2].shape.name, ttl=0.6)
    drive(engine.claim(short, now() + 5.0))
    crowd.waiting.catch_up()
    assert set(crowd.waiting.clients()) == {every[0], every[2]}
    until(engine, lambda: crowd.waiting.clients() == every[2:])


def test_all_clients_are_heard_although_the_heart_listens_for_moments_only(
    server: MariaDB, proxy: Proxy, far: MysqlEngine, other: MysqlEngine
) -> None:
    """So does a heart with many claims. In none of its moments can all locks be taken."""
    every = clients(6 * CHUNK)
    attend(far, every)
    holders, waiters = blocked(far, other, every)
    before = proxy.connections
    proxy.delay(0.03)
    end = now() + 30.0
    while not all(owner(server, client) for client in every[:: CHUNK // 2]):
        assert now() < end
        for _ in range(10):
            drive(far.listen(0.0))
            time.sleep(0.005)
    assert proxy.connections <= before + 2  # the ear, and a heart that wakes it
    release(other, holders)
    heard(far, waiters)


def test_a_grant_is_heard_from_a_server_with_fewer_notes(
    server: MariaDB, engine: MysqlEngine, other: MysqlEngine
) -> None:
    """A replica that was promoted may lack the last of them. A new one has the number of an old."""
    every = clients(2)
    attend(engine, every)
    for _ in range(2):  # a grant, which is then lost, and another one in its place
        holders, waiters = blocked(engine, other, every)
        until(engine, lambda: all(owner(server, client) for client in every))
        release(other, holders)
        heard(engine, waiters)
        server.command(f"KILL {owner(server, every[0])}")
        server.command("UPDATE lockfast.lockfast_ear SET n = n - 1 WHERE n > 0")
        wait_until(lambda: owner(server, every[0]) is None, "the connection has gone")


def test_a_client_that_comes_back_while_its_lock_is_given_back_gets_it_again(
    server: MariaDB, proxy: Proxy, far: MysqlEngine, other: MysqlEngine
) -> None:
    every = clients(2)
    attend(far, every)
    holders, waiters = blocked(far, other, every)
    until(far, lambda: all(owner(server, client) for client in every))
    far.hear(every[0], on=False)
    proxy.hold_requests(lambda request: b"RELEASE_LOCK" in request)
    until(far, lambda: proxy.held)
    far.hear(every[0], on=True)
    assert everyone_of(every[0]) in drive(far.listen(now() + 1.0))
    proxy.heal()
    proxy.release_requests()
    wait_until(lambda: not owner(server, every[0]), "the lock was given back")
    until(far, lambda: owner(server, every[0]))
    release(other, holders)
    heard(far, waiters)


def test_an_answer_about_locks_that_cannot_be_read_ends_the_connection(
    server: MariaDB, engine: MysqlEngine, other: MysqlEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = clients(2)
    attend(engine, every)
    holders, waiters = blocked(engine, other, every)
    with monkeypatch.context() as patch:
        patch.setattr(messages, "hold_ears", lambda _: b"SELECT 'no digits'")
        for _ in range(5):
            drive(engine.listen(now() + 0.2))
        assert not owner(server, every[0])
    release(other, holders)
    heard(engine, waiters)


def test_one_claim_that_may_not_be_resigned_does_not_fail_its_neighbours(server: MariaDB) -> None:
    with engine_at(server.address("app")) as engine, engine_at(server.address("other")) as other:
        asks = [ask(clients(1)[0], secrets.token_hex(8)) for _ in range(3)]
        for each, made in zip(asks, (engine, other, engine), strict=True):
            drive(made.claim(each, now() + 5.0))
        first, second, third = drive(engine.resign(asks, now() + 5.0, doubt=True))
        assert (first, third) == (True, True)
        assert isinstance(second, EngineRefused)
        assert "other" in str(second)
        assert drive(other.resign([asks[1]], now() + 5.0, doubt=True)) == [True]


@pytest.mark.parametrize("count", [0, 1, 300])
def test_a_look_sleeps_for_half_a_second_if_there_is_nothing(server: MariaDB, count: int) -> None:
    with closing(server.connect(database="lockfast")) as connection, connection.cursor() as cursor:
        cursor.execute(messages.ears(dict.fromkeys(range(count), -1)).decode())
        rows = cursor.fetchall()
        assert sorted(row[0] for row in rows) == list(range(count))
        began = time.monotonic()
        cursor.execute(messages.ears({row[0]: row[1] for row in rows}).decode())
        assert cursor.fetchall() == ()
        assert time.monotonic() - began >= 0.45
