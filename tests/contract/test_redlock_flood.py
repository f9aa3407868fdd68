"""Redlock with a node that sends pushes without end: calls end by their deadline."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

import pytest

import lockfast
from tests.servers import Redis, RedlockSet
from tests.servers.redlock import url_of

PUSHES = b">2\r\n+invalidate\r\n*0\r\n" * 2000
FLOOD = 8.0  # seconds


class Flood:
    """A way to a node. While it floods, it sends pushes instead of replies."""

    def __init__(self, node: Redis) -> None:
        self._node = node
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open = [self._socket]
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.until = 0.0
        self.reached = threading.Event()
        """Set when a connection floods."""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._socket.accept()
                far = socket.create_connection((self._node.host, self._node.port))
                self._open += [near, far]
                for source, target in ((near, far), (far, near)):
                    replies = source is far
                    thread = threading.Thread(
                        target=self._pass, args=(source, target, replies), daemon=True
                    )
                    thread.start()

    def _pass(self, source: socket.socket, target: socket.socket, replies: bool) -> None:  # noqa: FBT001  # of a thread
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                while replies and time.monotonic() < self.until:
                    self.reached.set()
                    target.sendall(PUSHES)
                target.sendall(data)

    def close(self) -> None:
        for each in self._open:
            each.close()


def test_a_node_that_sends_without_end_delays_no_call_beyond_its_deadline() -> None:
    """The call read what arrived for as long as something did."""
    with RedlockSet(3) as nodes:
        flood = Flood(nodes.nodes[2])
        near = [node.address for node in nodes.nodes[:2]]
        with lockfast.connect(url_of(*nodes.nodes, addresses=[*near, flood.address])) as client:
            lock = client.lock("x", ttl=5.0)
            with lock:
                pass
            nodes.nodes[1].pause()  # so that the call waits for the node that floods
            began = time.monotonic()
            flood.until = began + FLOOD
            with pytest.raises((lockfast.EngineError, lockfast.NotAcquired)):
                lock.acquire(timeout=1.0)
            took = time.monotonic() - began
            flood.until = 0.0
            nodes.nodes[1].resume()
            with lock:  # they are as before
                pass
        flood.close()
    assert flood.reached.is_set()
    assert took < FLOOD - 1.0
