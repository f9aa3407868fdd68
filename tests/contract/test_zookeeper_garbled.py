"""Answers that no ZooKeeper gives: only our own errors come out, and the client goes on after."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.serialization import Create2, Exists, GetData
from kazoo.protocol.states import ZnodeStat

import lockfast
from lockfast.engines.zookeeper import engine, nodes, session
from lockfast.engines.zookeeper.kazoo_handler import LARGEST, PATIENCE, Handler
from lockfast.engines.zookeeper.kazoo_replies import SHAPES
from lockfast.errors import EngineRefused, EngineUnavailable, LockfastError
from tests.servers import ZooKeeper

SOON = 8.0  # seconds
Garble = Callable[[bytes], bytes]


class Garbler:
    """A relay to a real server that changes answers when told to, frame by frame."""

    def __init__(self, server: ZooKeeper) -> None:
        self._target = server.host, server.port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._garble: Garble | None = None
        self._left = 0
        self._sockets: list[socket.socket] = [self._listener]
        self.garbled = 0
        self.greeting: Garble = lambda frame: frame
        """Changes the first answer of a connection: the session's number, password and timeout."""

    def __enter__(self) -> Self:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def garble(self, how: Garble, count: int = 1) -> None:
        """Change the next answers; those to pings are left as they are."""
        self._left, self._garble = count, how

    def _start(self, work: Callable[..., None], *args: object) -> None:
        threading.Thread(target=work, args=args, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                self._start(self._pass_on, client, server)
                self._start(self._answer, server, client)

    def _pass_on(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        self._end(source, sink)

    def _answer(self, server: socket.socket, client: socket.socket) -> None:
        with contextlib.suppress(OSError), server.makefile("rb") as stream:
            first = True
            while len(head := stream.read(4)) == 4:
                frame = head + stream.read(struct.unpack(">i", head)[0])
                if not first and self._left and struct.unpack(">i", frame[4:8])[0] > 0:
                    assert self._garble is not None
                    frame = self._garble(frame)
                    self._left -= 1
                    self.garbled += 1
                if first:
                    frame = self.greeting(frame)
                first = False
                client.sendall(frame)
        self._end(server, client)

    def cut(self) -> None:
        """End all connections that are open."""
        self._end(*self._sockets[1:])

    @staticmethod
    def _end(*ends: socket.socket) -> None:
        for each in ends:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _failing(code: int) -> Garble:
    return lambda frame: _framed(frame[4:16] + struct.pack(">i", code))


GARBLES: dict[str, Garble] = {
    "an unknown error": _failing(-7777),
    "an error that is none": _failing(42),
    "no body": lambda frame: _framed(frame[4:20]),
    "half a body": lambda frame: _framed(frame[4 : 20 + (len(frame) - 20) // 2]),
    "no header": lambda _: _framed(b"\0"),
    "nothing": lambda _: _framed(b""),
    "bytes that are no text": lambda frame: _framed(frame[4:20] + b"\0\0\0\4\xff\xfe\xfd\xfc" * 9),
    "a negative length": lambda _: struct.pack(">i", -5) + b"12345",
    "a huge length": lambda _: struct.pack(">i", 2**31 - 1) + b"12345",
    "another's number": lambda frame: _framed(struct.pack(">i", 2**31 - 1) + frame[8:]),
    "a watch that is none": lambda _: _framed(struct.pack(">iqi", -1, -1, 0) + b"\xff" * 7),
    "lengths that lie": lambda frame: _framed(frame[4:20] + struct.pack(">i", 2**31 - 1) * 8),
    "negative numbers": lambda frame: _framed(frame[4:20] + b"\xff" * (len(frame) - 20)),
}


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeper]:
    with ZooKeeper() as server:
        yield server


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("what", sorted(GARBLES))
def test_an_answer_that_cannot_be_read_costs_a_connection_and_nothing_else(
    server: ZooKeeper, what: str, count: int
) -> None:
    with Garbler(server) as relay, lockfast.connect(f"zookeeper://{relay.address}/x") as client:
        held = client.lock("held", ttl=8).acquire(timeout=SOON)
        for call in (
            lambda: client.lock("y", ttl=8).acquire(timeout=0.5).release(),
            lambda: client.lock("held", ttl=8).try_acquire(),
            lambda: client.lock("held").queue(),
            client.guarantees,
        ):
            relay.garble(GARBLES[what], count)
            with contextlib.suppress(LockfastError):
                call()
        assert relay.garbled > 0
        relay.garble(GARBLES[what], 0)
        began = time.monotonic()
        client.lock("z", ttl=8).acquire(timeout=SOON).release()  # it has recovered
        assert time.monotonic() - began < SOON
        held.ensure_held()
        held.release()


def _ahead(frame: bytes) -> bytes:
    return frame[:8] + struct.pack(">q", 2**62) + frame[16:]


def test_one_transaction_number_that_is_too_high_is_not_believed(server: ZooKeeper) -> None:
    """Servers do not take back a client that has seen more than they have."""
    with Garbler(server) as relay, lockfast.connect(f"zookeeper://{relay.address}/x") as client:
        lease = client.lock("x", ttl=8).acquire(timeout=SOON)

        def twice(frame: bytes) -> bytes:  # and the connection ends
            return GARBLES["a negative length"](frame) if relay.garbled else _ahead(frame)

        relay.garble(twice, 2)
        while relay.garbled < 2:
            with contextlib.suppress(LockfastError):
                client.lock("x", ttl=8).try_acquire()
        client.lock("y", ttl=8).acquire(timeout=SOON).release()
        lease.ensure_held()
        lease.release()


def test_transaction_numbers_that_are_too_high_do_not_lock_their_client_out_for_ever(
    server: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "OUTLIVED", 1.0)
    with Garbler(server) as relay, lockfast.connect(f"zookeeper://{relay.address}/x") as client:
        client.lock("x", ttl=2).acquire(timeout=SOON).release()
        relay.garble(_ahead, 50)
        with contextlib.suppress(LockfastError):
            client.lock("x", ttl=2).acquire(timeout=0.5).release()
        assert relay.garbled > 1
        relay.garble(lambda frame: frame, 0)
        relay.cut()
        time.sleep(0.5)
        with pytest.raises(EngineUnavailable):
            client.lock("y", ttl=2).acquire(timeout=1)
        time.sleep(3)  # two timeouts
        for _ in range(2):  # the first may be the one that finds out
            with contextlib.suppress(EngineUnavailable):
                client.lock("y", ttl=2).acquire(timeout=SOON).release()
                return
        pytest.fail("it never comes back")


@pytest.mark.parametrize(
    "greeting",
    [
        lambda frame: frame[:20] + struct.pack(">i", -1) + frame[24:],  # no password
        lambda _: _framed(b"\0"),
    ],
    ids=["no password", "nothing"],
)
def test_a_greeting_that_cannot_be_read_costs_a_connection(
    server: ZooKeeper, greeting: Garble
) -> None:
    """kazoo's thread must not end of it: nobody would ever connect again."""
    with Garbler(server) as relay, lockfast.connect(f"zookeeper://{relay.address}/x") as client:
        held = client.lock("held", ttl=8).acquire(timeout=SOON)
        plain, relay.greeting = relay.greeting, greeting
        relay.cut()
        with pytest.raises(EngineUnavailable):
            client.lock("y", ttl=8).acquire(timeout=1.0)
        relay.greeting = plain
        client.lock("y", ttl=8).acquire(timeout=SOON).release()
        held.ensure_held()
        held.release()


@pytest.mark.parametrize("zxid", [-1, 2**52, 2**63 - 1])
def test_a_transaction_number_that_no_token_can_be_made_of_is_no_answer(zxid: int) -> None:
    stat = ZnodeStat(zxid, *[1] * 10)
    assert not SHAPES[Exists](stat)
    assert not SHAPES[GetData]((b"", stat))
    assert not SHAPES[Create2](("/x", stat))
    assert SHAPES[Exists](stat._replace(czxid=2**52 - 1))


def test_looks_keep_their_deadline_while_an_answer_has_not_come_to_its_end(
    server: ZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kazoo's thread waits for the rest of it, and sends nothing: no caller may wait for that."""
    monkeypatch.setattr(engine, "IO", 0.5)
    with Garbler(server) as relay, lockfast.connect(f"zookeeper://{relay.address}/x") as client:
        client.lock("x", ttl=30).acquire(timeout=SOON)

        def look() -> float:
            began = time.monotonic()
            with contextlib.suppress(EngineUnavailable):
                client.inspect()
            return time.monotonic() - began

        relay.garble(lambda frame: struct.pack(">i", len(frame) + 1000) + frame[4:])
        with ThreadPoolExecutor(12) as pool:
            took = [each.result() for each in [pool.submit(look) for _ in range(12)]]
        assert relay.garbled == 1
        assert max(took) < 2 * 0.5 + 0.5  # it looks twice


def test_nodes_of_strangers_keep_nobody_from_locking_and_looking(server: ZooKeeper) -> None:
    folder = nodes.folder("/strange", "x")
    stranger = KazooClient(server.address)
    stranger.start()
    with lockfast.connect(f"{server.url}/strange") as client:
        lease = client.lock("x", ttl=8).acquire(timeout=SOON)
        id_ = "f" * 32
        for name in (
            "hello",
            f"{id_}-0-1-0000000000",
            f"{id_}--5-1-0000000000",
            "-" * 40,
            "\u0663",
        ):
            stranger.create(f"{folder}/{name}", b"\xff\xfe")
        for data in (b"", b"\xff\xfe 1", b"1e999 nan\nx", b"9" * 99 + b" 1\n", b"\n\n"):
            stranger.create(f"{folder}/{id_}-1-1_1_0000000001-", data, sequence=True)
        stranger.create(f"{folder.rpartition('/')[0]}/%ff%", b"")
        queue = client.lock("x").queue()
        assert [each.id for each in queue] == [lease.id] + [id_] * 5
        assert client.lock("x", ttl=8).try_acquire() is None
        lease.release()
        stranger.delete(folder, recursive=True)
        client.lock("x", ttl=8).acquire(timeout=SOON).release()
        unreadable = f"{folder}/{id_}-1-1_4_0000000001-0000000000"
        stranger.create(unreadable, b"", makepath=True)
        with pytest.raises(EngineRefused, match=r"format 1, but this version .* cannot read"):
            client.lock("x", ttl=8).acquire(timeout=SOON)
        stranger.delete(unreadable)
        client.lock("x", ttl=8).acquire(timeout=SOON).release()
    stranger.stop()
    stranger.close()


@contextlib.contextmanager
def talker(piece: bytes, pause: float, times: int) -> Iterator[Handler]:
    """Give a handler that is connected to one who answers a word piece by piece."""

    def talk() -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection, contextlib.suppress(OSError):
                    if connection.recv(4):
                        for _ in range(times):
                            connection.sendall(piece)
                            time.sleep(pause)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=talk, daemon=True)
        thread.start()
        handler = Handler(None)
        handler.create_connection(listener.getsockname()).close()
        yield handler
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(SOON)


def test_a_word_that_is_answered_byte_by_byte_is_given_up_in_time() -> None:
    with talker(b"x", 0.2, 40) as handler:
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            handler.command("srvr")
        assert time.monotonic() - began < PATIENCE + 2.0


def test_an_endless_answer_to_a_word_is_not_read_to_its_end() -> None:
    with talker(b"x" * 8192, 0.0, 1000) as handler:
        assert len(handler.command("srvr")) == LARGEST
