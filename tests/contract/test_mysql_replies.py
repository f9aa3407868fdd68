"""A MariaDB that answers what none should: only errors of ours come of it, and never a lease."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

import lockfast
from lockfast import EngineRefused, EngineUnavailable
from lockfast.engines import opener
from lockfast.engines.mysql import install
from lockfast.engines.mysql.engine import MysqlEngine
from lockfast.port import Ask, Shape
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.testing import MODES, Stage, UrlBench
from lockfast.testing.harness.verbs import acquire
from lockfast.url import parse
from tests.servers import MariaDB, Proxy, wait_until

NOW = "1794784099371244"
STANDINGS = [
    "7 t 1000000000000 0 0 7",  # left, a week and more
    "7 t -1 0 0 7",
    "0 t 1000000 0 0 7",
    f"{2**53} t 1000000 0 0 7",
    "7 t 1e6 0 0 7",
    "7 t 1000000 0 0",
    "7 t 1000000 0 0 7 8",
    "7 f 1000000 0 0 7",
    "7 f 1000000 0 0 7 - head 6 zz",
]
CLAIM = "a BIGINT, b LONGBLOB, c LONGBLOB, d LONGBLOB"
LATER = f"{NOW} {'-':>016}\n"  # a line of its own follows
HEADS = [
    "",
    NOW,
    f"{NOW}\n",
    f"{NOW} 7\n",
    f"{NOW} {7:016}",
    f"{NOW} {0:016}\n",
    f"{NOW} {2**53:016}\n",
    f"{NOW} {-7:016}\n",
    f"x {7:016}\n",
    f"{NOW} {7:016}\n{NOW} {7:016}\n",
    f"{NOW} {'-':>08}{'-':>08}\n{NOW} {STANDINGS[0]}\n",
    LATER,
]
CLAIMS = ["", "x", "-1", f"{2**80}", f"{NOW} 1", f"{NOW} 4", f"{NOW} 99", "1" * 5000]
GREETINGS = {
    "nonsense": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "16 MiB": b"\xff\xff\xff\0" + bytes(1000),
    "out of turn": b"\x01\0\0\x07\x0a",
    "cut": b"\x01\0\0\0\x0a",
    "empty": b"\0\0\0\0",
    "closed": b"",
}


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        install(server.url)
        yield server


@pytest.fixture
def engine(server: MariaDB) -> Iterator[MysqlEngine]:
    engine = opener(parse(server.url), Threads())()
    assert isinstance(engine, MysqlEngine)
    yield engine
    drive(engine.close())


@contextmanager
def answering(server: MariaDB, procedure: str, parameters: str, body: str) -> Iterator[None]:
    """Have a procedure do that, whatever it is asked."""
    name = f"lockfast_{procedure}_v1"
    with server.connect(database="lockfast") as connection, connection.cursor() as cursor:
        cursor.execute(f"SHOW CREATE PROCEDURE {name}")
        ((_, _, honest, *_),) = cursor.fetchall()
        cursor.execute(f"CREATE OR REPLACE PROCEDURE {name}({parameters}) {body}")
        try:
            yield
        finally:
            cursor.execute(f"DROP PROCEDURE {name}")
            cursor.execute(honest)


def said(answer: str) -> str:
    return f"SELECT CONVERT(x'{answer.encode().hex()}' USING utf8mb4)"


def ask(name: str = "x") -> Ask:
    return Ask(secrets.token_hex(16), Shape(name, 5.0), True, now() + 5, b"")  # noqa: FBT003


def test_a_claim_with_an_impossible_reply_is_unknown_and_not_granted(
    server: MariaDB, engine: MysqlEngine
) -> None:
    lines = CLAIMS + [f"{NOW} {each}" for each in STANDINGS]
    lines = [*(f"{each}\n" for each in lines), NOW, f"{NOW}\n{NOW}\n", f"{NOW}\n{NOW}"]
    for answer in [*HEADS, *(f"{LATER}{each}" for each in lines)]:
        with answering(server, "claim", CLAIM, said(answer)):
            with pytest.raises(EngineUnavailable) as caught:
                drive(engine.claim(ask(), now() + 9))
            assert caught.value.sent, answer
            assert engine._transport._links() == []  # the next reply might make no sense either
    mine = ask()
    standing = drive(engine.claim(mine, now() + 9))
    assert standing is not None
    assert standing.granted
    drive(engine.resign([mine], now() + 9, doubt=False))


@pytest.mark.parametrize(
    "answer", ["", "\n\n", f"{NOW}\n", f"{NOW}\n{NOW}", f"{NOW} 1\n{NOW}\n", f"{NOW} x\n{NOW}\n"]
)
def test_a_renewal_with_an_impossible_reply_is_unknown_and_not_lost(
    server: MariaDB, engine: MysqlEngine, answer: str
) -> None:
    with (
        answering(server, "renew", "a LONGBLOB", said(answer)),
        pytest.raises(EngineUnavailable) as caught,
    ):
        drive(engine.renew([ask("a"), ask("b")], now() + 9))
    assert caught.value.sent


@pytest.mark.parametrize("answer", ["", "t", "ttt", "tx", "tt\n"])
def test_a_resignation_with_an_impossible_reply_is_unknown(
    server: MariaDB, engine: MysqlEngine, answer: str
) -> None:
    with (
        answering(server, "resign", "a LONGBLOB, b LONGBLOB", said(answer)),
        pytest.raises(EngineUnavailable) as caught,
    ):
        drive(engine.resign([ask("a"), ask("b")], now() + 9, doubt=False))
    assert caught.value.sent


def test_a_reply_of_another_form_is_unknown(server: MariaDB, engine: MysqlEngine) -> None:
    for body in ("SELECT 1 UNION SELECT 2", "SELECT 1, 2", "SELECT NULL", "DO 1"):
        with answering(server, "claim", CLAIM, body):
            with pytest.raises(EngineUnavailable) as caught:
                drive(engine.claim(ask(), now() + 9))
            assert caught.value.sent, body


class Anywhere(UrlBench):
    def wipe(self) -> None:
        """Leave it."""


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize("greeting", sorted(GREETINGS))
def test_a_greeting_of_nonsense_is_no_connection(greeting: str, mode: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            while True:
                try:
                    peer, _ = listener.accept()
                except OSError:
                    return
                with peer:
                    peer.sendall(GREETINGS[greeting])
                    peer.settimeout(0.2)
                    with suppress(OSError):
                        while peer.recv(100):
                            pass

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        stage = Stage(
            Anywhere(f"mysql://u:secret@127.0.0.1:{listener.getsockname()[1]}/x"), MODES[mode]()
        )

        async def play() -> None:
            with pytest.raises((EngineUnavailable, EngineRefused)):
                await acquire(stage.client().lock("x", ttl=3.0), 0.5)

        began = time.monotonic()
        stage.mode.run(play())
        assert time.monotonic() - began < 5
        stage.mode.run(stage.clear())
        stage.mode.close()
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def test_a_connection_that_is_in_use_when_a_client_is_closed_is_closed_too(server: MariaDB) -> None:
    with Proxy(server.host, server.port) as proxy:
        url = server.url.replace(f":{server.port}", f":{proxy.port}")
        engine = opener(parse(url), Threads())()
        mine = ask()
        drive(engine.claim(mine, now() + 9))
        proxy.delay(0.0, replies=0.5)
        thread = threading.Thread(target=lambda: drive(engine.renew([mine], now() + 9)))
        thread.start()
        time.sleep(0.2)
        drive(engine.close())
        thread.join(9)
        wait_until(lambda: proxy.open_connections == 0, "all connections are closed")


def test_a_client_gets_an_error_of_ours(server: MariaDB) -> None:
    with (
        lockfast.connect(server.url) as client,
        answering(server, "claim", CLAIM, said(f"{LATER}{NOW} {STANDINGS[0]}\n")),
        pytest.raises(lockfast.LockfastError),
    ):
        client.lock("x").acquire(timeout=0.5)
