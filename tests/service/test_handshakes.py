"""Connections that never greet: they end in time, there are few, and others are served."""

from __future__ import annotations

import asyncio
import base64
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from lockfast.service import handshake
from lockfast.service.config import Config
from tests.servers.certificates import Certificates
from tests.servers.process import wait_until
from tests.service.test_access import KEY, SOON, Guarded, bearer, files, keys, opened, secured

__all__ = ["files"]  # the fixture
REQUEST = b"GET /v1/connect HTTP/1.1\r\nHost: localhost\r\n"


def upgrade(*more: bytes) -> bytes:
    """Return a complete handshake."""
    nonce = base64.b64encode(os.urandom(16))
    return b"".join(
        (
            REQUEST,
            b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n",
            b"Sec-WebSocket-Key: ",
            nonce,
            b"\r\n",
            *more,
            b"\r\n",
        )
    )


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no connection be forgotten only because its time is over."""
    monkeypatch.setattr(handshake, "LIMIT", 1_000.0)


def waiting(guarded: Guarded) -> int:
    return len(guarded.server._entrance._arrivals)


def is_ended(sock: socket.socket) -> bool:
    """Read to the end of a connection."""
    sock.settimeout(SOON)
    try:
        while sock.recv(65_536):
            pass
    except OSError as error:
        return not isinstance(error, TimeoutError)
    return True


@contextmanager
def client(guarded: Guarded, tls: ssl.SSLContext | None) -> Iterator[socket.socket]:
    with guarded.raw() as sock:
        if tls is None:
            yield sock
        else:
            with tls.wrap_socket(sock, server_hostname="localhost") as secure:
                yield secure


def drip(sock: socket.socket, piece: Callable[[int], bytes]) -> bool:
    """Send a bit now and then. Return whether the server ends the connection."""
    until = time.monotonic() + SOON
    sock.settimeout(0.05)
    n = 0
    while time.monotonic() < until:
        try:
            sock.sendall(piece(n))
            if not sock.recv(65_536):
                return True
        except TimeoutError:
            n += 1
        except OSError:
            return True
    return False


PIECES: dict[str, Callable[[int], bytes]] = {
    "nothing": lambda _: b"",
    "a line": lambda n: REQUEST if not n else b"",
    "headers for ever": lambda n: REQUEST if not n else b"X-%d: y\r\n" % n,
    "a body": lambda n: (
        b"x" if n else b"POST /livez HTTP/1.1\r\nHost: h\r\nContent-Length: 9999\r\n"
    ),
    "no greeting": lambda n: upgrade() if not n else b"",
    "pings instead of a greeting": lambda n: b"\x89\x80\0\0\0\0" if n else upgrade(),
    "a message that does not end": lambda n: b"\x01\x81\0\0\0\0 " if n else upgrade(),
}


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("pieces", PIECES)
def test_a_client_that_never_greets_is_cut_off(
    files: Certificates, pieces: str, monkeypatch: pytest.MonkeyPatch, *, encrypted: bool
) -> None:
    monkeypatch.setattr(handshake, "LIMIT", 0.5)
    monkeypatch.setattr("lockfast.service.websocket.GREETING", 0.5)
    tls = ssl.create_default_context(cafile=files.ca_path) if encrypted else None
    with Guarded(secured(files) if encrypted else Config(port=0)) as guarded:
        with client(guarded, tls) as sock:
            assert drip(sock, PIECES[pieces])
        wait_until(lambda: not waiting(guarded), "it is forgotten")
        wait_until(lambda: not guarded.server.server_state.connections, "it is closed")


@pytest.mark.parametrize("piece", [b"", b"\x16\x03\x01\x02\x00\x01", b"\x16"])
def test_a_tls_handshake_that_stands_still_is_cut_off(
    files: Certificates, piece: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "LIMIT", 0.5)
    with Guarded(secured(files)) as guarded, guarded.raw() as sock:
        sock.sendall(piece)
        assert is_ended(sock)
        wait_until(lambda: not waiting(guarded), "it is forgotten")


@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize("piece", [b"\0" * 1000, REQUEST, b"\x16\x03\x01\x00\x05hello" * 10])
def test_what_is_no_tls_ends_at_once_and_is_not_logged(
    files: Certificates, piece: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with Guarded(secured(files)) as guarded:
        for _ in range(20):
            with guarded.raw() as sock:
                sock.sendall(piece)
                assert is_ended(sock)
        wait_until(lambda: not waiting(guarded), "they are forgotten")
    assert not caplog.records


@pytest.mark.usefixtures("unlimited")
def test_a_client_that_does_not_trust_the_certificate_leaves_nothing(files: Certificates) -> None:
    with Guarded(secured(files)) as guarded:
        for _ in range(10):
            with guarded.raw() as sock, pytest.raises(ssl.SSLError):
                ssl.create_default_context().wrap_socket(sock, server_hostname="localhost")
        wait_until(lambda: not waiting(guarded), "they are forgotten")


@pytest.mark.parametrize("headers", [b"X: " + b"x" * 10_000_000, b"X: y\r\n" * 1_000_000])
@pytest.mark.parametrize("start", [REQUEST, upgrade()[:-2]])
def test_headers_of_megabytes_end_the_connection(
    start: bytes, headers: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with Guarded(Config(port=0, keys=keys(a=KEY))) as guarded:
        with guarded.raw() as sock:
            try:
                sock.sendall(start + headers)
                assert is_ended(sock)
            except OSError:
                pass
        assert guarded.status(bearer(KEY)) == 101
    assert not [each for each in caplog.records if each.name.startswith(("uvicorn", "lockfast"))]


@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize(
    ("more", "status"),
    [
        (b"X: " + b"y" * 9_000 + b"\r\n", 431),
        (b"X: y\r\n" * 200, 400),
        (b"Sec-WebSocket-Key: 2\r\n", 400),
    ],
)
def test_a_handshake_that_only_one_parser_takes_is_answered_and_ends(
    more: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """h11 reads it first, and websockets reads it again, with other limits."""
    with Guarded(Config(port=0)) as guarded, guarded.raw() as sock:
        sock.sendall(upgrade(more))
        assert sock.recv(4_096).startswith(b"HTTP/1.1 %d " % status)
        assert is_ended(sock)
        wait_until(lambda: not waiting(guarded), "it is forgotten")
    assert not caplog.records


def test_connections_that_wait_are_few_and_others_get_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handshake, "MOST", 20)
    monkeypatch.setattr(handshake, "SLOW", 0.2)
    with Guarded(Config(port=0, keys=keys(a=KEY))) as guarded, ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(guarded.raw()).sendall(REQUEST)
        opened(f"lockfast://:{KEY}@127.0.0.1:{guarded.port}", mode="threads")
        assert waiting(guarded) <= 20


def test_a_crowd_waits_instead_of_being_cut_off(
    files: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the death of a replica all its clients come at once."""
    monkeypatch.setattr(handshake, "MOST", 5)
    monkeypatch.setattr(handshake, "SLOW", 1_000.0)
    cut: list[handshake.Arrival] = []
    monkeypatch.setattr(handshake.Arrival, "end", cut.append)
    with Guarded(secured(files, keys=keys(a=KEY))) as guarded:
        url = f"lockfasts://:{KEY}@127.0.0.1:{guarded.port}?ssl_ca_certs={files.ca_path}"
        failed: list[BaseException] = []

        def one() -> None:
            try:
                opened(url, mode="threads")
            except BaseException as error:  # noqa: BLE001  # the test shows it
                failed.append(error)

        threads = [threading.Thread(target=one) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        assert not failed
        assert not cut
        wait_until(lambda: not waiting(guarded), "all have greeted")


@pytest.mark.usefixtures("unlimited")
@pytest.mark.parametrize("sent", [b"", REQUEST, REQUEST + b"\r\n", b"nonsense\r\n\r\n", upgrade()])
def test_a_client_that_leaves_early_is_forgotten(sent: bytes) -> None:
    with Guarded(Config(port=0)) as guarded:
        with guarded.raw() as sock:
            sock.sendall(sent)
            wait_until(lambda: waiting(guarded) == 1 or sent.endswith(b"\r\n\r\n"), "it is there")
        wait_until(lambda: not waiting(guarded), "it is forgotten")


@pytest.mark.usefixtures("unlimited")
def test_many_wrong_keys_at_once_leave_nothing_behind() -> None:
    with Guarded(Config(port=0, keys=keys(a=KEY))) as guarded:
        with ExitStack() as stack:
            socks = [stack.enter_context(guarded.raw()) for _ in range(300)]
            for sock in socks:
                sock.sendall(upgrade(b"Authorization: Bearer lockfast_" + b"x" * 43 + b"\r\n"))
            for sock in socks:
                sock.settimeout(SOON)
                assert sock.recv(65_536).startswith(b"HTTP/1.1 401")
        wait_until(lambda: not waiting(guarded), "they are forgotten")
        wait_until(lambda: not guarded.server.server_state.connections, "they are closed")
        assert not guarded.held.calls
        assert not guarded.server._app.replica.connections


def test_a_client_that_has_greeted_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "LIMIT", 0.3)
    monkeypatch.setattr("lockfast.service.websocket.GREETING", 0.3)

    async def main(url: str) -> None:
        import lockfast.aio  # noqa: PLC0415  # here only

        async with lockfast.aio.connect(url) as client:
            lease = await client.lock("a").acquire()
            await asyncio.sleep(1.0)
            lease.ensure_held()
            assert len(guarded.server._replica.connections) == 1
            await lease.release()

    with Guarded(Config(port=0)) as guarded:
        asyncio.run(main(f"lockfast://127.0.0.1:{guarded.port}"))


def accepted(listening: socket.socket) -> int:
    """Accept what is in the backlog. Return for how many connections a handshake began."""
    made: list[handshake.Arrival] = []

    def make(arrival: handshake.Arrival) -> asyncio.Protocol:
        made.append(arrival)
        return asyncio.Protocol()

    async def accept() -> None:
        entrance = handshake.Entrance(make, None)
        entrance.open([listening])
        while not made:  # noqa: ASYNC110  # it has no event
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        entrance.close()

    asyncio.run(accept())
    return len(made)


def test_a_client_that_has_left_the_backlog_costs_no_handshake() -> None:
    """A replica did the handshakes of clients that had given up, and those behind gave up too."""
    with socket.create_server(("127.0.0.1", 0), backlog=50) as listening:
        where = listening.getsockname()
        for _ in range(20):
            with socket.create_connection(where) as leaver:
                leaver.sendall(upgrade())
        with socket.create_connection(where) as stayer:
            stayer.sendall(upgrade())
            assert accepted(listening) == 1


def test_a_client_of_http_may_close_its_own_direction_in_the_backlog() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        where = listening.getsockname()
        with socket.create_connection(where) as half, socket.create_connection(where) as stayer:
            half.sendall(b"GET /livez?websocket HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            half.shutdown(socket.SHUT_WR)
            stayer.sendall(upgrade())
            assert accepted(listening) == 2
