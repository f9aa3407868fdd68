"""Five thousand connections that never send a whole request, beside clients that do."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

import lockfast
from lockfast.service.keys import new_key, stored
from tests.servers import Redis
from tests.service.http.site import Site
from tests.service.served import Served, bearer

MANY = 5_000
PATIENCE = 100.0  # seconds. A handshake has ten
BEGINNINGS = [
    b"",
    b"G",
    b"GET /v1/connect HTTP/1.1\r\nHost: localhost\r\n",
    b"POST /v1/acquire HTTP/",
]
KEY = new_key()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    needed = MANY + 500
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), max(hard, needed)))
    text = f"[keys]\n{stored('a', KEY)}\n"
    with Redis() as redis, Served(tmp_path, redis.url, text) as found:
        yield found
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, max(hard, needed)))


def begun(port: int, piece: bytes) -> socket.socket:
    """Begin a connection, and send the beginning of a request as soon as it stands."""
    sock = socket.socket()
    sock.settimeout(0.0)
    sock.connect_ex(("127.0.0.1", port))
    with suppress(OSError):
        sock.send(piece)
    return sock


def is_open(sock: socket.socket) -> bool:
    """Send one more byte, and return whether the server still takes it."""
    try:
        sock.send(b"x")
        return bool(sock.recv(65_536))
    except BlockingIOError:
        return True
    except OSError:
        return False


@pytest.mark.timeout(300)
def test_five_thousand_half_open_connections_harm_nobody(served: Served) -> None:
    url = f"lockfast://:{KEY}@127.0.0.1:{served.port}"
    site = Site(served.port, KEY, keep=True)
    with ExitStack() as stack:
        client = stack.enter_context(lockfast.connect(url))
        lease = stack.enter_context(client.lock("socket", ttl=5.0))
        handle = site.acquire("http", ttl=60.0).body["handle"]
        assert site._line is not None
        stack.callback(site._line.close)
        token = lease.token
        socks = [
            stack.enter_context(begun(served.port, BEGINNINGS[number % len(BEGINNINGS)]))
            for number in range(MANY)
        ]
        # Those who come later get in, by HTTP and by WebSocket.
        assert Site(served.port, KEY).get("/v1/guarantees", timeout=PATIENCE).status == 200
        with lockfast.connect(url) as later, later.lock("later", timeout=PATIENCE):
            pass
        assert served.status() == 401
        # Those that drip are ended, each of them, and nobody loses anything meanwhile.
        until = time.monotonic() + PATIENCE
        while socks and time.monotonic() < until:
            socks = [sock for sock in socks if is_open(sock)]
            assert site.renew(handle)[0]["state"] == "held"
            lease.ensure_held()
            time.sleep(0.2)
        assert not socks
        assert (lease.token, served.program.process.poll()) == (token, None)
        assert served.status(bearer(KEY)) == 101
    assert "Traceback" not in served.program.stderr
