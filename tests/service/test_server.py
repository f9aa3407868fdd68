"""A replica under uvicorn, with clients that share no code with the engine for the service."""

from __future__ import annotations

import asyncio
import base64
import http.client
import logging
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from lockfast.engines.memory import Memory
from lockfast.engines.remote import messages
from lockfast.engines.remote.frames import TEXT, Masker
from lockfast.engines.remote.identity import client_of, new_secret
from lockfast.engines.remote.messages import (
    Asked,
    Claim,
    Failed,
    Goaway,
    Gone,
    Hello,
    Inspect,
    Page,
    Reply,
    Resign,
    Said,
    Welcome,
    Woken,
)
from lockfast.runtime.aio import Aio
from lockfast.service import websocket, wire
from lockfast.service.access import allowed
from lockfast.service.app import App
from lockfast.service.config import Config
from lockfast.service.handshake import Arrival
from lockfast.service.replica import Replica
from lockfast.service.server import Server
from lockfast.service.upgrade import Upgrade
from lockfast.service.websocket import Message
from tests.service.peers import Held

SOON = 5.0
LONG = bytes(60_000)  # a payload


class Running:
    """A server in a thread of this process."""

    def __init__(self) -> None:
        self.held = Held(Memory())
        self.replica = Replica(self.held.made, Aio())
        self.server = Server(self.replica, Config(port=0))
        self.thread = threading.Thread(target=self.server.run)

    def begin(self) -> None:
        self.thread.start()
        until = time.monotonic() + SOON
        while not self.server.started:
            assert time.monotonic() < until
            time.sleep(0.005)
        self.port = self.server.address[1]

    def end(self) -> None:
        self.server.should_exit = True
        self.thread.join(15)
        assert not self.thread.is_alive()
        assert self.replica._engine is None

    @contextmanager
    def client(self, path: str = "/v1/connect", **more: Any) -> Iterator[ClientConnection]:  # noqa: ANN401
        more.setdefault("compression", None)
        with connect(f"ws://127.0.0.1:{self.port}{path}", **more) as socket:
            yield socket

    def get(self, path: str, method: str = "GET", **headers: str) -> int:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        connection.request(method, path, headers={"Host": "localhost", **headers})
        status = connection.getresponse().status
        connection.close()
        return status


def foreign(arrival: Arrival, **more: Any) -> WebSocketsSansIOProtocol:  # noqa: ANN401
    """Return the WebSocket of a server that does not hand over connections."""
    arrival.done()
    return WebSocketsSansIOProtocol(**more)


@pytest.fixture(params=[Upgrade, foreign], ids=["own", "asgi"])
def running(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    """A server that carries the frames itself, and one as it is in another application."""
    monkeypatch.setattr("lockfast.service.upgrade.Upgrade", request.param)
    found = Running()
    found.begin()
    yield found
    found.end()


def say(socket: ClientConnection, *requests: messages.Request) -> None:
    for request in requests:
        socket.send(messages.encode(request).decode())


def read(socket: ClientConnection) -> Reply:
    return messages.reply(socket.recv(SOON))


class Peer:
    """A client on a socket."""

    def __init__(self, socket: ClientConnection, *, hear: bool = False) -> None:
        self.socket = socket
        secret = new_secret()
        self.client = client_of(secret)
        say(socket, Hello(messages.VERSION, secret, 1, hear))
        welcome = read(socket)
        assert isinstance(welcome, Welcome)
        assert welcome.now is not None
        self.now = welcome.now
        if hear:
            assert isinstance(read(socket), Woken)

    def ask(self, name: str, number: int = 1) -> Asked:
        return Asked(f"{self.client}{number:010x}", name, 30.0, not_after=self.now + 10.0)


def test_a_lock_is_handed_over_between_two_clients(running: Running) -> None:
    with running.client() as one, running.client() as two:
        holder, waiter = Peer(one), Peer(two, hear=True)
        say(one, Claim(1, 1.0, [holder.ask("a")]))
        say(two, Claim(1, 1.0, [waiter.ask("a")]))
        first, second = read(one), read(two)
        assert isinstance(first, Said)
        assert isinstance(second, Said)
        assert first.results[0] is not None
        assert second.results[0] is not None
        assert [first.results[0].granted, second.results[0].granted] == [True, False]
        say(one, Resign(2, 1.0, [holder.ask("a")]))
        assert read(one) == Gone(2, [True])
        woken = read(two)
        assert isinstance(woken, Woken)
        assert woken.granted


def test_binary_frames_are_taken_too(running: Running) -> None:
    with running.client() as socket:
        peer = Peer(socket)
        socket.send(messages.encode(Claim(1, 1.0, [peer.ask("a")])))
        assert isinstance(socket.recv(SOON), str)


def test_a_malformed_message_ends_the_connection_with_a_reason(running: Running) -> None:
    with running.client() as socket:
        Peer(socket)
        socket.send("nonsense" * 100)
        reply = read(socket)
        assert isinstance(reply, Failed)
        assert reply.n == 0
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(SOON)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1002
        assert "malformed" in closed.value.rcvd.reason
    assert not running.replica.connections


def test_a_frame_over_the_limit_is_not_read(running: Running) -> None:
    with running.client() as socket:
        Peer(socket)
        socket.send(" " * (messages.LARGEST + 1))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(SOON)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


def test_nothing_is_compressed(running: Running) -> None:
    with running.client(compression="deflate") as socket:
        assert not socket.protocol.extensions


@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("/v1/connect", {"Origin": "http://127.0.0.1"}, 403),
        ("/v1/connect", {"Origin": "null"}, 403),
        ("/v2/connect", {}, 404),
        ("/", {}, 404),
    ],
)
def test_a_handshake_from_elsewhere_is_refused(
    running: Running,
    path: str,
    headers: dict[str, str],
    status: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        pytest.raises(InvalidStatus) as refused,
        running.client(path, additional_headers=headers),
    ):
        pass
    assert refused.value.response.status_code == status
    assert not running.held.calls
    running.end()
    assert not caplog.messages  # uvicorn would call it an error of the application


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8080", 200),
        ("127.0.0.1:1", 200),
        ("127.8.8.8", 200),
        ("[::1]:80", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("10.0.0.1", 403),
        ("[::2]", 403),
        ("", 403),
    ],
)
def test_only_names_of_this_machine_are_served(running: Running, host: str, status: int) -> None:
    assert running.get("/livez", Host=host) == status


@pytest.mark.parametrize("hosts", [[], [b"localhost", b"localhost"], [b"localhost", b"evil"]])
def test_exactly_one_host_is_served(hosts: list[bytes]) -> None:
    assert allowed([(b"Host", b"localhost")])
    assert not allowed([(b"host", host) for host in hosts])


def test_a_second_signal_ends_the_wait_for_clients(running: Running) -> None:
    with running.client() as socket:
        Peer(socket)
        running.server.should_exit = True
        assert read(socket) == Goaway()
        began = time.monotonic()
        running.server.force_exit = True
        with pytest.raises(ConnectionClosed):
            socket.recv(SOON)
        assert time.monotonic() - began < 2.0


def test_health(running: Running) -> None:
    assert running.get("/livez") == 200
    assert running.get("/livez", Origin="http://localhost") == 403
    assert running.get("/livez", "POST") == 405
    assert running.get("/readyz") == 200
    running.held.cut = True
    assert running.get("/readyz") == 200  # it was asked just now
    assert running.replica._checking is not None
    running.replica._checking = None
    assert running.get("/readyz") == 503
    assert running.get("/livez") == 200


def test_a_client_that_asks_for_too_much_is_read_later(running: Running) -> None:
    running.held.holding = {"inspect"}
    with running.client() as socket:
        peer = Peer(socket)
        say(socket, *(Inspect(n, "a", exact=True) for n in range(1, 1000)))
        assert running.replica.connections
        (connection,) = running.replica.connections
        until = time.monotonic() + SOON
        while not connection.full and time.monotonic() < until:
            time.sleep(0.01)
        assert connection._unanswered == 256
        with running.client() as other:
            stranger = Peer(other)
            say(other, Claim(1, 1.0, [stranger.ask("a")]))
            assert isinstance(read(other), Said)
        running.held.loop.call_soon_threadsafe(running.held.let_go)
        replies = [read(socket) for _ in range(1, 1000)]
        assert {reply.n for reply in replies if isinstance(reply, Page)} == set(range(1, 1000))
        del peer


def test_the_end_sends_clients_away_and_waits_for_them(running: Running) -> None:
    with ExitStack() as stack:
        sockets = [stack.enter_context(running.client()) for _ in range(3)]
        for socket in sockets:
            Peer(socket)
        began = time.monotonic()
        running.server.should_exit = True
        for socket in sockets:
            assert read(socket) == Goaway()
        assert running.get("/readyz") == 503
        with pytest.raises(InvalidStatus) as refused, running.client():
            pass
        assert refused.value.response.status_code == 503
        for socket in sockets:
            socket.close()
        running.thread.join(SOON)
        assert not running.thread.is_alive()
        assert time.monotonic() - began < 3.0


def test_clients_that_stay_are_cut_off(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockfast.service.server.DRAINING", 0.2)
    with running.client() as socket:
        Peer(socket)
        running.server.should_exit = True
        assert read(socket) == Goaway()
        with pytest.raises(ConnectionClosed):
            socket.recv(SOON)
    running.thread.join(SOON)
    assert not running.thread.is_alive()


def test_the_end_during_a_request_is_in_time(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockfast.service.server.DRAINING", 0.2)
    running.held.holding = {"claim", "renew"}
    with running.client() as socket:
        peer = Peer(socket)
        say(socket, Claim(1, 5.0, [peer.ask("a")]))
        running.server.should_exit = True
        assert read(socket) == Goaway()
        with pytest.raises(ConnectionClosed):
            socket.recv(SOON)
    running.thread.join(SOON)
    assert not running.thread.is_alive()


def test_a_client_that_vanishes_leaves_nothing_behind(running: Running) -> None:
    with running.client() as socket:
        peer = Peer(socket, hear=True)
        assert peer.client in running.held.memory.listeners
        socket.socket.shutdown(2)
    until = time.monotonic() + SOON
    while running.replica.connections and time.monotonic() < until:
        time.sleep(0.01)
    assert not running.replica.connections
    assert peer.client not in running.held.memory.listeners


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "no.such.host.invalid", ""])  # noqa: S104
def test_other_addresses_are_not_served(host: str) -> None:
    with pytest.raises(ValueError, match=r"needs TLS .*and API keys|is empty|no address of this"):
        Server(Replica.of("memory://"), Config(host=host, port=0))


@pytest.mark.parametrize("package", ["uvicorn", "websockets"])
def test_a_missing_package_is_named(package: str) -> None:
    code = (
        "import sys\n"
        f"sys.modules[{package!r}] = None\n"
        "import lockfast.service\n"
        "lockfast.service.serve(lockfast.service.Config(url='memory://', port=0))\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert re.search(rf"ImportError: .*{package}.*lockfast\[service\]", told.stderr)


def test_the_package_imports_no_server() -> None:
    code = "import sys, lockfast.service; print({'uvicorn', 'msgspec'} & set(sys.modules))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "set()\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_process_in_order(number: signal.Signals) -> None:
    code = (
        "import logging, lockfast.service.server as s\n"
        "server = s.Server(s.Replica.of('memory://'), s.Config(port=0))\n"
        "start = server.startup\n"
        "async def told(sockets=None):\n"
        "    await start(sockets)\n"
        "    print(server.address[1], flush=True)\n"
        "server.startup = told\n"
        "server.run()\n"
        "print('end')\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as told:
        assert told.stdout is not None
        port = int(told.stdout.readline())
        with connect(f"ws://127.0.0.1:{port}/v1/connect", compression=None) as socket:
            Peer(socket)
            os.kill(told.pid, number)
            assert read(socket) == Goaway()
        assert told.stdout.read() == "end\n"
        assert told.wait(SOON) == 0


def test_uvicorns_messages_go_to_our_log(caplog: pytest.LogCaptureFixture) -> None:
    Server(Replica.of("memory://"), Config(port=0))._sockets[0].close()
    with caplog.at_level(logging.WARNING, "lockfast"):
        logging.getLogger("uvicorn.error").warning("a message")
        logging.getLogger("uvicorn.error").info("a connection")
    assert logging.getLogger("uvicorn").parent is logging.getLogger("lockfast")
    assert caplog.messages == ["a message"]


def test_a_refused_handshake_leaves_the_headers_to_the_server() -> None:
    """uvicorn 0.35 adds its own Content-Length, and a client rejects a response that has two."""
    sent = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "path": "/",
        "headers": [(b"host", b"localhost")],
        "extensions": {"websocket.http.response": {}},
    }
    asyncio.run(App(Replica.of("memory://"))(scope, receive, send))
    assert sent[0] == {"type": "websocket.http.response.start", "status": 404, "headers": []}


def test_it_can_be_mounted_without_a_lifespan() -> None:
    """`path` keeps the prefix of the mount, and nobody starts or ends the application."""

    async def scene() -> list[Message]:
        replica = Replica(Held().made, Aio())
        sent: list[Message] = []
        incoming: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        scope = {
            "type": "websocket",
            "path": "/locks/v1/connect",
            "root_path": "/locks",
            "headers": [(b"host", b"localhost")],
        }

        async def send(message: Message) -> None:
            sent.append(message)
            await asyncio.sleep(0)

        task = asyncio.create_task(App(replica)(scope, incoming.get, send))
        hello = messages.encode(Hello(messages.VERSION, new_secret(), 1))
        for message in (
            {"type": "websocket.connect"},
            {"type": "websocket.receive", "bytes": hello, "text": None},
        ):
            incoming.put_nowait(message)
        await asyncio.sleep(0.05)
        incoming.put_nowait({"type": "websocket.disconnect", "code": 1000})
        await task
        await replica.close()
        return sent

    sent = asyncio.run(scene())
    assert [each["type"] for each in sent][:2] == ["websocket.accept", "websocket.send"]
    assert isinstance(messages.reply(sent[1]["text"]), Welcome)


def test_a_client_that_leaves_before_it_is_let_in_leaves_nothing_behind() -> None:
    async def scene() -> None:
        replica = Replica(Held().made, Aio())
        scope = {"type": "websocket", "path": "/v1/connect", "headers": [(b"host", b"localhost")]}

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            return {"type": "websocket.connect"}

        async def send(_message: Message) -> None:
            await asyncio.sleep(0)
            raise ConnectionResetError

        with pytest.raises(ConnectionResetError):
            await App(replica)(scope, receive, send)
        assert not replica.connections
        await replica.close()

    asyncio.run(scene())


def test_a_lifespan_closes_the_replica() -> None:
    async def scene() -> list[str]:
        held = Held()
        replica = Replica(held.made, Aio())
        replica.connect(lambda: None)
        sent: list[str] = []
        incoming = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(0)
            return incoming.pop(0)

        async def send(message: Message) -> None:
            await asyncio.sleep(0)
            sent.append(message["type"])

        await App(replica)({"type": "lifespan"}, receive, send)
        assert replica._engine is None
        return sent

    assert asyncio.run(scene()) == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


@pytest.mark.parametrize("running", [Upgrade], ids=["own"], indirect=True)
def test_a_client_that_closes_and_has_not_read_everything_does_not_stop_the_end(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvicorn's own raised InvalidState then, and the connections of others were not closed."""
    monkeypatch.setattr("lockfast.service.server.DRAINING", 0.2)
    with running.client() as other, raw(running.port) as deaf:
        peer = Peer(other)
        asks = [
            Asked(f"{peer.client}{n:010x}", f"x{n}", 30.0, not_after=peer.now + 10.0, payload=LONG)
            for n in range(8)
        ]
        say(other, *(Claim(n, 5.0, [ask]) for n, ask in enumerate(asks, 1)))
        for _ in asks:
            assert isinstance(read(other), Said)
        greeting = messages.encode(Hello(messages.VERSION, new_secret(), 1))
        deaf.sendall(frame(0x1, greeting))
        until = time.monotonic() + 2 * SOON
        while not unsent(running):  # the system's buffers are full
            assert time.monotonic() < until
            deaf.sendall(frame(0x1, messages.encode(Inspect(1, "x", exact=False))))
            time.sleep(0.02)
        deaf.sendall(frame(0x8, b"\x03\xe8"))
        while not any(each.is_closing() for each in transports(running)):
            assert time.monotonic() < until
            time.sleep(0.01)
        running.server.should_exit = True
        assert read(other) == Goaway()
        with pytest.raises(ConnectionClosed) as closed:
            other.recv(SOON)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1012
        running.thread.join(SOON)
        assert not running.thread.is_alive()


def transports(running: Running) -> list[asyncio.Transport]:
    found = list(running.server.server_state.connections)
    return [each._transport for each in found if isinstance(each, wire.Wire)]


def unsent(running: Running) -> int:
    """Return how many bytes of replies the system has not taken."""
    return max(each.get_write_buffer_size() for each in transports(running))


def raw(port: int) -> socket.socket:
    """Connect, and shake hands."""
    sock = socket.create_connection(("127.0.0.1", port), timeout=SOON)
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        "GET /v1/connect HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Key: {key}\r\n\r\n".encode()
    )
    assert sock.recv(4096).startswith(b"HTTP/1.1 101")
    return sock


def frame(opcode: int, data: bytes) -> bytes:
    """Return a frame of a client, with a mask of zeros."""
    length = len(data)
    size = bytes([0x80 | length]) if length < 126 else bytes([0xFE]) + length.to_bytes(2, "big")
    return bytes([0x80 | opcode]) + size + bytes(4) + data


def test_a_connection_without_a_greeting_ends(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (wire, websocket):
        monkeypatch.setattr(module, "GREETING", 0.1)
    with running.client() as socket:
        failed = read(socket)
        assert isinstance(failed, Failed)
        assert "greeting" in failed.fault.why
        with pytest.raises(ConnectionClosed):
            socket.recv(SOON)


def test_a_client_that_sends_before_the_handshake_is_answered_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What uvicorn has read by then would be lost when the connection is handed over."""
    found = Running()
    served = App(found.replica)

    async def late(scope: dict[str, Any], receive: Any, send: Any) -> None:  # noqa: ANN401
        await asyncio.to_thread(early.wait, SOON)
        await served(scope, receive, send)

    early = threading.Event()
    monkeypatch.setattr(found.server.config, "app", late)
    found.begin()
    try:
        with socket.create_connection(("127.0.0.1", found.port), timeout=SOON) as sock:
            frame = Masker().frame
            sock.sendall(
                b"GET /v1/connect HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                b"Connection: Upgrade\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                b"Sec-WebSocket-Version: 13\r\n\r\n"
            )
            time.sleep(0.2)  # so that it does not come with the handshake: uvicorn drops that
            hello = messages.encode(Hello(messages.VERSION, new_secret(), 1, hear=True))
            sock.sendall(frame(TEXT, hello))
            with suppress(ConnectionResetError):
                assert not sock.recv(1024)
            early.set()
        assert not found.replica.connections
    finally:
        early.set()
        found.end()
