"""A client that floods a replica, while another one uses it."""

from __future__ import annotations

import base64
import json
import os
import secrets
import socket
import threading
import time

import lockfast
from tests.servers.service import Service
from tests.service.peers import Held

PING = b"\x89\xfd\0\0\0\0" + b"x" * 125


def test_pings_of_one_client_do_not_delay_others() -> None:
    """A replica answered them all, to a client that read no answer. Others waited for seconds."""
    with Service(lambda _: Held().made) as service, lockfast.connect(service.url) as client:
        host, port = service.url.removeprefix("lockfast://").split(":")
        ended = threading.Event()

        def flood() -> None:
            with _greeted(host, int(port)) as sock:
                until = time.monotonic() + 3.0
                try:
                    while time.monotonic() < until:
                        sock.sendall(PING * 2_000)
                except OSError:
                    ended.set()

        thread = threading.Thread(target=flood)
        thread.start()
        slowest = 0.0
        while thread.is_alive():
            began = time.monotonic()
            with client.lock("name", timeout=5.0):
                pass
            slowest = max(slowest, time.monotonic() - began)
        assert ended.is_set(), "the connection goes on"
        assert slowest < 1.0


def _greeted(host: str, port: int) -> socket.socket:
    sock = socket.create_connection((host, port))
    sock.settimeout(5.0)
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        f"GET /v1/connect HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    sock.recv(1024)
    secret = secrets.token_urlsafe(32)
    hello = json.dumps({"t": "hello", "v": 1, "secret": secret, "epoch": 1}).encode()
    sock.sendall(b"\x81" + bytes([0x80 | len(hello)]) + b"\0\0\0\0" + hello)
    return sock
