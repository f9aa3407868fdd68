"""The frames between a replica and its clients, byte by byte."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from lockfast.engines.remote import messages
from lockfast.engines.remote.frames import (
    BINARY,
    CLOSE,
    CONT,
    PING,
    PONG,
    TEXT,
    Event,
    Masker,
    Reader,
    closed,
    closing,
)
from lockfast.engines.remote.identity import client_of, new_secret
from lockfast.engines.remote.messages import (
    LARGEST,
    LARGEST_REPLY,
    Asked,
    Claim,
    Failed,
    Hear,
    Hello,
    Inspect,
    Page,
    Reply,
    Said,
    Welcome,
)
from lockfast.service import wire
from lockfast.service.replica import Replica
from tests.servers import wait_until
from tests.servers.service import Service
from tests.service.peers import Held, in_front_of_memory

SOON = 10.0
HANDSHAKE = (
    "GET /v1/connect HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Raw:
    """A client that can send any byte."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.frame = Masker().frame
        self.secret = new_secret()
        self.client = client_of(self.secret)
        self._reader = Reader(LARGEST_REPLY, masked=False)
        self._events: list[Event] = []

    def shake(self, then: bytes = b"") -> None:
        """Make the handshake. `then`: bytes that are sent with it, which is too early."""
        key = base64.b64encode(os.urandom(16)).decode()
        self.sock.sendall(HANDSHAKE.format(key=key).encode() + then)
        seen = b""
        while b"\r\n\r\n" not in seen:
            seen += self._some()
        head, _, rest = seen.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 ")
        self._events += self._reader.feed(rest)

    def hello(self, *, hear: bool = False) -> bytes:
        return messages.encode(Hello(messages.VERSION, self.secret, 1, hear))

    def greet(self) -> None:
        self.shake()
        self.say(TEXT, self.hello())
        assert isinstance(self.reply(), Welcome)

    def say(self, opcode: int, payload: bytes = b"") -> None:
        self.sock.sendall(self.frame(opcode, payload))

    def ask(self, *requests: messages.Request) -> None:
        self.sock.sendall(b"".join(self.frame(TEXT, messages.encode(each)) for each in requests))

    def claim(self, n: int, name: str) -> Claim:
        return Claim(n, 5.0, [Asked(f"{self.client}{n:010x}", name, 30.0, not_after=1e10)])

    def read(self) -> Event:
        while not self._events:
            self._events += self._reader.feed(self._some())
        return self._events.pop(0)

    def reply(self) -> Reply:
        opcode, payload = self.read()
        assert opcode == TEXT
        return messages.reply(payload)

    def end(self) -> int:
        """Return the code of the close frame that comes next, with the end after it."""
        opcode, payload = self.read()
        assert opcode == CLOSE
        self.wait_for_end()
        return closed(payload)[0]

    def wait_for_end(self) -> None:
        try:
            assert not self._events
            assert self.sock.recv(1) == b""
        except ConnectionResetError:  # the replica has not read all
            pass

    def _some(self) -> bytes:
        data = self.sock.recv(65_536)
        assert data, "the replica closed the connection"
        return data


@pytest.fixture
def held() -> Held:
    return Held()


@pytest.fixture
def service(held: Held) -> Iterator[Service]:
    with Service(lambda _: held.made) as found:
        yield found


@contextmanager
def connected(service: Service) -> Iterator[Raw]:
    host, port = service.url.removeprefix("lockfast://").split(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.settimeout(SOON)
        yield Raw(sock)


@pytest.fixture
def raw(service: Service) -> Iterator[Raw]:
    with connected(service) as found:
        found.greet()
        yield found


BAD = {
    "no mask": (b"\x81\x02{}", 1002),
    "a reserved bit": (b"\xf1\x80\0\0\0\0", 1002),
    "a long ping": (b"\x89\xfe\x01\x00\0\0\0\0", 1002),
    "a fragment of nothing": (b"\x80\x80\0\0\0\0", 1002),
    "not UTF-8": (b"\x81\x81\0\0\0\0\xff", 1007),
    "too large": (b"\x81\xff" + (LARGEST + 1).to_bytes(8, "big") + b"\0\0\0\0", 1009),
}


@pytest.mark.parametrize("name", BAD)
def test_a_violation_ends_the_connection_with_its_code(
    service: Service, raw: Raw, name: str
) -> None:
    data, code = BAD[name]
    raw.sock.sendall(data)
    assert raw.end() == code
    with connected(service) as other:  # and nobody else's
        other.greet()


def test_what_came_before_a_violation_is_answered_by_an_end_only(raw: Raw) -> None:
    raw.sock.sendall(raw.frame(TEXT, b"{}") + b"\x81\x02{}" + raw.frame(TEXT, b"{}"))
    assert raw.end() == 1002


def test_fragments_make_a_message(raw: Raw) -> None:
    request = messages.encode(raw.claim(1, "a"))
    mask = b"\0\0\0\0"
    for first, part in (
        (TEXT, request[:10]),
        (CONT, request[10:20]),
        (0x80 | PING, b"between"),
        (0x80 | CONT, request[20:]),
    ):
        size = (
            bytes([0x80 | len(part)]) if len(part) < 126 else b"\xfe" + len(part).to_bytes(2, "big")
        )
        raw.sock.sendall(bytes([first]) + size + mask + part)
    assert raw.read() == (PONG, b"between")
    assert isinstance(raw.reply(), Said)


def test_bytes_are_taken_one_by_one(raw: Raw) -> None:
    for each in raw.frame(BINARY, messages.encode(raw.claim(1, "a"))):
        raw.sock.sendall(bytes([each]))
    assert isinstance(raw.reply(), Said)


def test_a_ping_is_answered_with_its_payload(raw: Raw) -> None:
    raw.say(PING, b"x" * 125)
    assert raw.read() == (PONG, b"x" * 125)


@pytest.mark.parametrize("code", [1000, 1001, 4000])
def test_a_close_frame_is_answered_with_its_code(raw: Raw, code: int) -> None:
    raw.say(CLOSE, closing(code, "bye"))
    assert raw.end() == code


def test_an_empty_close_frame_is_answered_with_one(raw: Raw) -> None:
    raw.say(CLOSE)
    assert raw.end() == 1005


def test_a_close_frame_with_a_bad_code_is_a_violation(raw: Raw) -> None:
    raw.say(CLOSE, b"\0\1")
    assert raw.end() == 1002


def test_a_message_that_ends_the_connection_waits_for_the_clients_answer(raw: Raw) -> None:
    raw.say(TEXT, b"{}")
    assert isinstance(raw.reply(), Failed)
    opcode, payload = raw.read()
    assert (opcode, closed(payload)[0]) == (CLOSE, 1002)
    raw.say(PING, b"ignored")
    raw.say(CLOSE, payload)
    raw.wait_for_end()


def test_a_client_that_does_not_answer_a_close_frame_is_cut_off(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "FLUSHING", 0.1)
    with connected(service) as raw:
        raw.greet()
        raw.say(TEXT, b"{}")
        assert isinstance(raw.reply(), Failed)
        assert raw.end() == 1002


def test_a_silent_client_is_asked_and_then_cut_off(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wire, "GREETING", 1.0)
    monkeypatch.setattr(wire, "SILENCE", 0.2)
    with connected(service) as raw:
        raw.greet()
        for _ in range(2):
            assert raw.read() == (PING, b"")
            raw.say(PONG)
        assert raw.read() == (PING, b"")
        raw.wait_for_end()


def test_hundreds_of_requests_in_one_piece_are_answered(
    service: Service, raw: Raw, held: Held
) -> None:
    """More than a client's share of a turn, and more than may be unanswered."""
    held.holding = {"inspect"}
    count = 1_000
    raw.ask(*(Inspect(n, "a", exact=True) for n in range(1, count)))
    with connected(service) as other:  # is served meanwhile
        other.greet()
        other.ask(other.claim(1, "b"))
        assert isinstance(other.reply(), Said)
    held.loop.call_soon_threadsafe(held.let_go)
    replies = [raw.reply() for _ in range(1, count)]
    assert {each.n for each in replies if isinstance(each, Page)} == set(range(1, count))


def test_messages_without_a_reply_do_not_keep_others_waiting(service: Service, raw: Raw) -> None:
    flood = b"".join(
        raw.frame(TEXT, messages.encode(Hear(on))) for on in (True, False) for _ in range(20_000)
    )
    raw.sock.settimeout(0.0)
    assert raw.sock.send(flood) > 10_000
    with connected(service) as other:
        began = time.monotonic()
        other.greet()
        other.ask(other.claim(1, "b"))
        assert isinstance(other.reply(), Said)
        assert time.monotonic() - began < 2.0


def test_fragments_without_an_end_do_not_keep_others_waiting(service: Service, raw: Raw) -> None:
    """They made no message, so nothing limited how many were read. Every lock of others failed."""
    first, rest = (bytearray(raw.frame(opcode, b"")) for opcode in (TEXT, CONT))
    first[0] &= 0x7F  # not final
    rest[0] &= 0x7F
    raw.sock.sendall(first)
    raw.sock.settimeout(None)

    def send() -> None:
        with suppress(OSError):  # until the end of the test
            while True:
                raw.sock.sendall(rest * 50_000)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        time.sleep(0.2)
        with connected(service) as other:
            began = time.monotonic()
            other.greet()
            other.ask(other.claim(1, "b"))
            assert isinstance(other.reply(), Said)
            assert time.monotonic() - began < 2.0
    finally:
        raw.sock.shutdown(socket.SHUT_RDWR)
        sender.join(SOON)


def test_a_client_that_does_not_read_is_not_read_and_then_served(service: Service) -> None:
    with connected(service) as raw:
        raw.greet()
        payload = b"p" * 60_000
        claim = raw.claim(1, "a")
        claim.asks[0].payload = payload
        raw.ask(claim)
        assert isinstance(raw.reply(), Said)
        count = 300
        raw.ask(*(Inspect(n, "a", exact=True) for n in range(1, count)))
        assert service._server is not None
        (connection,) = service._server._replica.connections
        wait_until(lambda: connection.full, "the connection is full", SOON)
        time.sleep(0.2)
        assert connection.outbox.size < 20 * 2**20
        replies = [raw.reply() for _ in range(1, count)]
        assert {each.n for each in replies if isinstance(each, Page)} == set(range(1, count))
        raw.ask(raw.claim(2, "b"))
        assert isinstance(raw.reply(), Said)


def test_the_end_of_the_server_is_told(service: Service, raw: Raw) -> None:
    assert service._server is not None
    service._server.force_exit = True
    service._server.should_exit = True
    assert raw.reply() == messages.Goaway()
    assert raw.end() in {1001, 1012}


class Written(asyncio.Transport):
    """A transport to nowhere, which notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None: ...

    def is_closing(self) -> bool:
        return False


@in_front_of_memory
async def test_pings_are_not_answered_while_nobody_reads(replica: Replica) -> None:
    transport = Written()
    protocol = wire.Wire(replica, transport, set())
    ping = Masker().frame
    protocol.data_received(ping(PING, b"a"))
    assert transport.written == b"\x8a\x01a"
    protocol.pause_writing()
    protocol.data_received(ping(PING, b"b"))
    assert transport.written == b"\x8a\x01a"
    protocol.resume_writing()
    protocol.data_received(ping(PING, b"c") + ping(PING, b"d"))
    assert transport.written == b"\x8a\x01a\x8a\x01d"
    protocol.connection_lost(None)
