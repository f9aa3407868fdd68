"""On MariaDB: our own two calls on a raw socket and by PyMySQL, and GET_LOCK without a lease."""

from __future__ import annotations

import contextlib
import itertools
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from functools import partial
from multiprocessing.connection import Connection as Pipe
from urllib.parse import urlsplit

import pymysql
from pymysql.connections import Connection
from pymysql.cursors import Cursor

from benchmarks.against import Against
from benchmarks.duel import HOLD, Held, duel, now
from benchmarks.rounds import Work
from benchmarks.workers import orders
from lockfast.engines.mysql import install, messages
from lockfast.port import Ask, Shape
from tests.servers import MariaDB

LOCK, UNLOCK = "SELECT GET_LOCK('benchmark', 60)", "SELECT RELEASE_LOCK('benchmark')"
FAR = 2**52  # µs by the server's clock: no claim of a benchmark is ever too late
STATE = "SELECT STATE, QUERY_ID FROM information_schema.PROCESSLIST WHERE ID = %s"
# A commit waits for a hundred others, or for 5,000 µs.
SLOW = {
    "log-bin": "log",
    "sync-binlog": "1",
    "binlog-format": "ROW",
    "binlog-commit-wait-count": "100",
    "binlog-commit-wait-usec": "5000",
}
SLEEPER, MORE = "benchmark_sleeper", "benchmark_more"


@contextmanager
def start(config: Mapping[str, str] | None = None) -> Iterator[MariaDB]:
    with MariaDB(config=config) as server:
        install(server.url)
        yield server


def connect(url: str) -> Connection[Cursor]:
    where = urlsplit(url)
    return pymysql.connect(
        host=where.hostname,
        port=where.port or 0,
        user=where.username,
        password=where.password or "",
        database="lockfast",
        autocommit=True,
    )


@contextmanager
def pairs(server: MariaDB) -> Iterator[dict[str, Work]]:
    with (
        closing(connect(server.url)) as raw,
        closing(connect(server.url)) as driver,
        closing(connect(server.url)) as smallest,
        closing(connect(server.url)) as theirs,
    ):
        _query(smallest, "CREATE TABLE smallest (last BIGINT) ENGINE = InnoDB")
        _query(smallest, "INSERT INTO smallest VALUES (0)")
        yield {
            "bare": _bare(raw),
            "PyMySQL": _driver(driver),
            "smallest durable statement": _smallest(smallest),
            "GET_LOCK": _get_lock(theirs),
        }


def _statements() -> tuple[list[bytes], list[bytes]]:
    """Write both statements, each cut where its id belongs, which must be new to the server."""
    ask = Ask("0" * 32, Shape("bare", 30.0), queue=True, not_after=0.0, payload=b"p" * 120)
    mark = ask.id.encode()
    claim = messages.claim([ask], [FAR], 0)
    resign = messages.resign([ask], None)
    return _cut(claim, mark), _cut(resign, mark)


def _cut(sql: bytes, mark: bytes) -> list[bytes]:
    """Cut at the last id: digits before it are zeros too."""
    before, _, after = sql.rpartition(mark)
    return [before, after]


def _bare(connection: Connection[Cursor]) -> Work:
    """The floor: a socket, with as little around it as possible."""
    claim, resign = _statements()
    sock: socket.socket = connection._sock  # type: ignore[attr-defined]  # noqa: SLF001  # after PyMySQL's login
    sock.settimeout(None)
    send, receive, numbers = sock.sendall, sock.recv, itertools.count()

    def framed(sql: bytes) -> bytes:
        return (len(sql) + 1).to_bytes(3, "little") + b"\0\x03" + sql

    def call(sql: bytes) -> bytes:
        send(framed(sql))
        reply = receive(65536)
        while reply[-11:-8] != b"\x07\0\0":  # the OK at the end may come by itself
            reply += receive(65536)
        return reply

    def work(count: int) -> None:
        for _ in range(count):
            id_ = b"%032x" % next(numbers)
            if b" t " not in call(id_.join(claim)):
                raise AssertionError("the bare claim was not granted at once")
            if b"\x01t" not in call(id_.join(resign)):
                raise AssertionError("the bare resignation found nothing")

    return work


def _driver(connection: Connection[Cursor]) -> Work:
    claim, resign = _statements()
    numbers = itertools.count(1 << 64)

    def work(count: int) -> None:
        with connection.cursor() as cursor:
            for _ in range(count):
                id_ = b"%032x" % next(numbers)
                cursor.execute(id_.join(claim).decode())
                cursor.execute(id_.join(resign).decode())

    return work


def _smallest(connection: Connection[Cursor]) -> Work:
    """What two commits cost that do hardly anything."""

    def work(count: int) -> None:
        for _ in range(2 * count):
            _query(connection, "UPDATE smallest SET last = last + 1")

    return work


def _get_lock(connection: Connection[Cursor]) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            _query(connection, LOCK)
            _query(connection, UNLOCK)

    return work


def _query(connection: Connection[Cursor], sql: str, *args: object) -> tuple[object, ...] | None:
    with connection.cursor() as cursor:
        cursor.execute(sql, args or None)
        found: tuple[object, ...] | None = cursor.fetchone() if cursor.description else None
        return found


# --- the handoff --------------------------------------------------------------------------------


def _duel(pipe: Pipe, _side: int, url: str) -> None:
    with closing(connect(url)) as connection:
        duel(pipe, lambda: _query(connection, LOCK), lambda _: _query(connection, UNLOCK))


def _kill(pipe: Pipe, side: int, url: str) -> None:
    """The unit: one side kills the query in which the other one sleeps."""
    with closing(connect(url)) as connection:
        if side == 0:
            _killer(pipe, connection)
        else:
            _query(connection, "SELECT GET_LOCK(%s, 0)", SLEEPER)
            _sleeper(pipe, connection)


def _killer(pipe: Pipe, connection: Connection[Cursor]) -> None:
    for seconds in orders(pipe):
        _query(connection, "SELECT GET_LOCK(%s, 60)", MORE)
        found = _query(connection, "SELECT IS_USED_LOCK(%s)", SLEEPER)
        assert found is not None
        (ident,) = found
        records, end, killed = [], now() + seconds, None
        while now() < end:
            time.sleep(HOLD)
            killed = _asleep(connection, ident, killed)
            sent = now()
            _query(connection, "KILL QUERY %s", ident)
            records.append(Held(sent, sent))
        _asleep(connection, ident, killed)  # it has noted the last kill
        _query(connection, "SELECT RELEASE_LOCK(%s)", MORE)
        _query(connection, "KILL QUERY %s", ident)
        pipe.send(records)


def _asleep(connection: Connection[Cursor], ident: object, killed: object) -> object:
    """Wait until the other side sleeps, in another query than the last one that was killed."""
    while True:
        found = _query(connection, STATE, ident)
        if found is not None and found[0] == "User sleep" and found[1] != killed:
            return found[1]
        time.sleep(HOLD / 10)


def _sleeper(pipe: Pipe, connection: Connection[Cursor]) -> None:
    for _ in orders(pipe):
        records = []
        while True:
            with contextlib.suppress(pymysql.OperationalError):
                _query(connection, "SELECT SLEEP(60)")
            received = now()
            if _query(connection, "SELECT IS_USED_LOCK(%s)", MORE) == (None,):
                break
            records.append(Held(received, received))
        pipe.send(records)


AGAINST = Against(
    start=start,
    pairs=pairs,
    locks={"GET_LOCK": _duel},
    unit=("kill query", _kill),
    slow=partial(start, SLOW),
)
