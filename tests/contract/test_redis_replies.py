"""Replies that no server should give: none is believed, and only our own errors come out."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import pytest

from lockfast.errors import EngineError
from lockfast.testing import COLOURS, Stage
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
    "another protocol": b"HTTP/1.1 400 Bad Request\r\n\r\n",
    "a move to nowhere": b"-MOVED junk\r\n",
    "a dead id without a time": _list(_bulk("dead"), _bulk("soon")),
    "a script that is never known": b"-NOSCRIPT No matching script\r\n",
}


class Liar:
    """A way to a server that answers scripts itself."""

    def __init__(self, server: Redis) -> None:
        self._server = server
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.lie = b""
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
                if self.lie and b"\r\nEVAL" in data and b"HELLO" not in data:
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
def _lied_to(server: Redis, scheme: str, colour: str) -> Iterator[tuple[Liar, Stage]]:
    way = Liar(server)
    stage = Stage(RedisBench(f"{scheme}://{way.address}"), COLOURS[colour]())
    try:
        yield way, stage
        way.lie = way.first = b""
        stage.colour.run(stage.clear())
    finally:
        stage.colour.close()
        way.close()


@pytest.mark.parametrize("colour", sorted(COLOURS))
def test_no_lie_is_believed_and_its_connection_is_dropped(server: Redis, colour: str) -> None:
    with _lied_to(server, "redis", colour) as (way, stage):

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

        stage.colour.run(play())


@pytest.mark.parametrize("colour", sorted(COLOURS))
def test_a_push_is_never_taken_for_a_reply(server: Redis, colour: str) -> None:
    """It was, and so the next claim, on a lock that another had, was given this one's reply."""
    with _lied_to(server, "redis", colour) as (way, stage):

        async def play() -> None:
            actor = stage.actor()
            await actor.claim(actor.ask("busy", ttl=60))
            way.first = b">2\r\n+invalidate\r\n*0\r\n"
            mine = actor.ask("free", ttl=60)
            assert (await actor.claim(mine)).granted
            way.first = b""
            assert not (await actor.claim(actor.ask("busy", ttl=60))).granted
            assert await actor.resign(mine) == [True]

        stage.colour.run(play())


@pytest.mark.parametrize("colour", sorted(COLOURS))
def test_no_lie_of_a_node_is_believed_by_redlock(colour: str) -> None:
    with (
        RedlockSet(1) as servers,
        _lied_to(servers.nodes[0], "redlock", colour) as (way, stage),
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

        stage.colour.run(play())
