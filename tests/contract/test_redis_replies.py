"""Replies that no server should give: none is believed, and only our own errors come out."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import hiredis
import pytest

from lockfast.engines.redis import messages, replies
from lockfast.engines.redis.engine import RedisEngine
from lockfast.engines.redis.reply_parser import MISSING, Parser
from lockfast.engines.redis.threads import ThreadTransport
from lockfast.engines.redlock import messages as redlock_packets
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.port import Ask, Shape
from lockfast.testing import MODES, Stage
from tests.contract.benches import RedisBench
from tests.servers import Redis, RedlockSet


def _bulk(text: object) -> bytes:
    raw = str(text).encode()
    return b"$%d\r\n%b\r\n" % (len(raw), raw)


def _list(*items: bytes) -> bytes:
    return b"*%d\r\n%b" % (len(items), b"".join(items))


def _standing(ticket: object, left: int, floor: object = 5) -> bytes:
    return _list(
        _bulk(ticket), b":1\r\n", b":%d\r\n" % left, b":0\r\n" * 2, _bulk(floor), b":-1\r\n"
    )


LIES = {
    "a lease for thirty years": _standing(5, 10**12),
    "a negative ticket": _bulk(-7),
    "no ticket at all": _bulk(0),
    "a ticket above 2^53": _bulk(2**70),
    "a standing with a ticket above 2^53": _standing(2**60, 1000),
    "a floor above 2^53": _standing(5, 1000, 2**60),
    "an empty string": b"$0\r\n\r\n",
    "nil": b"_\r\n",
    "the number 7": b":7\r\n",
    "OK": b"+OK\r\n",
    "an empty list": b"*0\r\n",
    "a short list": _list(b":9\r\n"),
    "a double": b",3.5\r\n",
    "a map with a list for a key": b"%1\r\n*0\r\n+x\r\n",
    "an array of a thousand million": b"*1000000000\r\n",
    "a map of a million": b"%1000000\r\n",
    "a holder's payload that is a number": _list(
        *(_bulk(5), b":0\r\n", b":1000\r\n", b":0\r\n" * 2, _bulk(5), b":-1\r\n"),
        *(_bulk("0" * 32), _bulk(5), b":300000000\r\n"),
    ).replace(b"*9\r\n", b"*10\r\n"),
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a move to nowhere": b"-MOVED junk\r\n",
    "a dead id without a time": _list(_bulk("dead"), _bulk("soon")),
    "a script that is never known": b"-NOSCRIPT No matching script\r\n",
}


class Liar:
    """A way to a server that answers scripts itself, or another command."""

    def __init__(self, server: Redis) -> None:
        self._server = server
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.lie = b""
        self.about = b"\r\nEVAL"
        self.first = b""
        self.connections = 0
        self._open: list[socket.socket] = [self._socket]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._socket.accept()
                far = socket.create_connection((self._server.host, self._server.port))
                self._open += [near, far]
                self.connections += 1
                threading.Thread(target=self._ask, args=(near, far), daemon=True).start()
                threading.Thread(target=self._answer, args=(far, near), daemon=True).start()

    def _ask(self, near: socket.socket, far: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := near.recv(65536):
                if self.lie and self.about in data and b"HELLO" not in data:
                    near.sendall(self.lie)
                else:
                    if self.first and b"\r\nEVAL" in data:
                        near.sendall(self.first)
                    far.sendall(data)

    def _answer(self, far: socket.socket, near: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := far.recv(65536):
                near.sendall(data)

    def close(self) -> None:
        for each in self._open:
            each.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@contextlib.contextmanager
def _lied_to(server: Redis, scheme: str, mode: str) -> Iterator[tuple[Liar, Stage]]:
    way = Liar(server)
    stage = Stage(RedisBench(f"{scheme}://{way.address}"), MODES[mode]())
    try:
        yield way, stage
        way.lie = way.first = b""
        stage.mode.run(stage.clear())
    finally:
        stage.mode.close()
        way.close()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_no_lie_is_believed_and_its_connection_is_dropped(server: Redis, mode: str) -> None:
    with _lied_to(server, "redis", mode) as (way, stage):

        async def play() -> None:
            actor = stage.actor()
            for what, lie in LIES.items():
                held = actor.ask(f"held {what}", ttl=60)
                way.lie = b""
                await actor.claim(held)
                before = way.connections
                way.lie = lie
                with pytest.raises(EngineError):
                    await actor.claim(actor.ask(f"new {what}", ttl=60))
                renewed: object
                try:
                    (renewed,) = await actor.renew(held)
                except EngineError as error:
                    renewed = error
                assert isinstance(renewed, EngineError) or renewed is None, what
                with pytest.raises(EngineError):
                    await actor.resign(held)
                if not lie.startswith(b"-"):
                    assert way.connections > before, what
                way.lie = b""
                assert await actor.resign(held) == [True]

        stage.mode.run(play())


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_push_is_never_taken_for_a_reply(server: Redis, mode: str) -> None:
    """It was, and so the next claim, on a lock that another had, was given this one's reply."""
    with _lied_to(server, "redis", mode) as (way, stage):

        async def play() -> None:
            actor = stage.actor()
            await actor.claim(actor.ask("busy", ttl=60))
            way.first = b">2\r\n+invalidate\r\n*0\r\n"
            mine = actor.ask("free", ttl=60)
            assert (await actor.claim(mine)).granted
            way.first = b""
            assert not (await actor.claim(actor.ask("busy", ttl=60))).granted
            assert await actor.resign(mine) == [True]

        stage.mode.run(play())


def test_messages_on_a_connection_without_a_subscription_are_not_kept(server: Redis) -> None:
    with _lied_to(server, "redis", "threads") as (way, stage):

        async def play() -> None:
            actor = stage.actor()
            way.first = b">3\r\n$7\r\nmessage\r\n$1\r\nx\r\n$1\r\ny\r\n" * 100
            for number in range(10):
                await actor.claim(actor.ask(f"name {number}", ttl=60))
            way.first = b""
            assert isinstance(actor.engine, RedisEngine)
            transport = actor.engine._transport
            assert isinstance(transport, ThreadTransport)
            idle = [each for shelf in transport._idle.values() for each in shelf]
            assert [each.pushes for each in idle] == [[]] * len(idle) != []

        stage.mode.run(play())


@pytest.mark.parametrize("mode", sorted(MODES))
def test_no_lie_of_a_node_is_believed_by_redlock(mode: str) -> None:
    with (
        RedlockSet(1) as servers,
        _lied_to(servers.nodes[0], "redlock", mode) as (way, stage),
    ):

        async def play() -> None:
            actor = stage.actor()
            for what, lie in LIES.items():
                way.lie = b""
                held = actor.ask(f"held {what}", ttl=60)
                await actor.claim(held)
                way.lie = lie
                new, standing = actor.ask(f"new {what}", ttl=60), None
                with contextlib.suppress(EngineError):
                    standing = await actor.engine.claim(new, stage.bench.now() + 0.4)
                assert standing is None or not standing.granted, what
                way.lie = b""
                await actor.claim(actor.ask(f"after {what}", ttl=60))

        stage.mode.run(play())


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_message_that_is_no_push_of_ours_wakes_nobody_and_costs_nothing(
    server: Redis, mode: str
) -> None:
    stage = Stage(RedisBench(server.url, server), MODES[mode]())

    async def play() -> None:
        actor = stage.actor()
        await actor.attend()
        waiter = actor.ask("x", ttl=60)
        holder = actor.ask("x", ttl=60)
        await actor.claim(holder)
        await actor.claim(waiter)
        channel = f"lockfast:{waiter.id[:22]}"
        junk = ("", " ", "x", f"{waiter.id}", f"{waiter.id} -1", f"{waiter.id} x", b"\xff\x80 7")
        for message in (*junk, f"{waiter.id} {10**30}"):
            server.command("PUBLISH", channel, message)
        await actor.resign(holder)
        assert [wake.id for wake in await actor.wakes(1)] == [waiter.id]

    try:
        stage.mode.run(play())
        stage.mode.run(stage.clear())
    finally:
        stage.mode.close()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_redlock_bears_a_message_that_is_no_id_and_a_list_that_is_none(mode: str) -> None:
    with (
        RedlockSet(1) as servers,
        _lied_to(servers.nodes[0], "redlock", mode) as (way, stage),
    ):

        async def play() -> None:
            actor = stage.actor()
            await actor.attend()
            holder, waiter = actor.ask("x", ttl=60), actor.ask("x", ttl=60)
            await actor.claim(holder)
            await actor.claim(waiter)
            for message in (b"\xff\x80", "", "x", f"{waiter.id} 7"):
                servers.nodes[0].command("PUBLISH", f"lockfast:redlock:{waiter.id[:22]}", message)
            await actor.resign(holder)
            assert [wake.id for wake in await actor.wakes(1)] == [waiter.id]
            for lie in (b":7\r\n", b"*0\r\n", b"*2\r\n:0\r\n:7\r\n", b"*2\r\n$1\r\nx\r\n*0\r\n"):
                way.about, way.lie = b"\r\nSCAN", lie
                with pytest.raises(EngineUnavailable):
                    await actor.engine.inspect("", None, exact=False)

        stage.mode.run(play())


def _feed(parser: Parser, data: bytes) -> object:
    parser.feed(data)
    return parser.gets()


WAYS: list[Callable[[Parser, bytes], object]] = [_feed, Parser.read]


def _fed(parser: Parser, way: Callable[[Parser, bytes], object], pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        assert way(parser, piece) is MISSING


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("split", [1, 3, 7, 11])
def test_the_head_of_a_huge_array_is_refused_however_it_is_cut(
    split: int, way: Callable[[Parser, bytes], object]
) -> None:
    parser, head = Parser(), b"*2\r\n*1000000000\r\n"
    pieces = [head[start : start + split] for start in range(0, len(head), split)]
    with pytest.raises(hiredis.ProtocolError, match="999999"):
        _fed(parser, way, pieces)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("cut", range(1, 13))
def test_the_head_of_a_huge_array_is_refused_when_it_begins_behind_a_reply(
    cut: int, way: Callable[[Parser, bytes], object]
) -> None:
    parser, head = Parser(), b"*1000000000\r\n"
    assert way(parser, b"+OK\r\n" + head[:cut]) == b"OK"
    assert not parser.idle
    with pytest.raises(hiredis.ProtocolError, match="999999"):
        _fed(parser, way, [head[cut:]])


@pytest.mark.parametrize("way", WAYS)
def test_an_array_without_end_is_refused_although_each_piece_is_a_whole_part(
    way: Callable[[Parser, bytes], object],
) -> None:
    part = b"$65536\r\n%b\r\n" % (b"x" * 65536)
    with pytest.raises(hiredis.ProtocolError, match="more than 16777216 bytes"):
        _fed(Parser(), way, [b"*999\r\n", *[part] * 300])


def test_a_reply_without_end_is_refused_before_it_costs_much() -> None:
    parser = Parser()
    assert parser.read(b"+") is MISSING
    began = time.process_time()
    with pytest.raises(hiredis.ProtocolError, match="more than"):
        _fed(parser, Parser.read, (b"\r" * max(65536, parser.unfinished) for _ in range(100)))
    assert time.process_time() - began < 2.0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("split", [1, 5, 64, 65536])
def test_a_name_that_looks_like_the_head_of_an_array_is_read(
    split: int, way: Callable[[Parser, bytes], object]
) -> None:
    text = b"job\r\n*1000000000\r\n" * 10
    raw = b"*2\r\n$%d\r\n%b\r\n+OK\r\n" % (len(text), text)
    parser = Parser()
    for start in range(0, len(raw), split):
        reply = way(parser, raw[start : start + split])
    assert reply == [text, b"OK"]
    assert parser.idle


@pytest.mark.parametrize("way", WAYS)
def test_data_is_not_kept_when_its_reply_is_complete(
    way: Callable[[Parser, bytes], object],
) -> None:
    """It kept the memory that asyncio receives into, and each read needed new memory."""
    parser, data = Parser(), b"+a line of %d\r\n" % 7
    unused = sys.getrefcount(data)
    assert way(parser, data) == b"a line of 7"
    assert sys.getrefcount(data) == unused


def test_an_id_that_somebody_else_has_written_is_neither_shown_nor_sent() -> None:
    """A resignation sends it behind a fixed length: it ran commands as whoever broke the lock."""
    evil = "0" * 30 + "\r\n*2\r\n$3\r\nDEL\r\n$8\r\nprecious\r\n"
    row = [evil.encode(), b"5", 1, 1000, b"v1 1 1 1 5000 "]
    assert replies.entries("x", [row]) == []
    ask = Ask(evil, Shape("x", 5.0), queue=True, not_after=0.0, payload=b"")
    with pytest.raises(ValueError, match="not the id"):
        messages.resign(messages.resign_form("x"), ask, 0)
    with pytest.raises(ValueError, match="not the id"):
        redlock_packets.resign("x", evil, 5)
