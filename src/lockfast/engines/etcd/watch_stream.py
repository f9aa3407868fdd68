"""A gRPC stream of watches, which a thread reads, for blocking and asyncio clients.

asyncio clients need the thread too. Ctrl-C would cancel a reader task beside the bodies that need
it (trap 52), and open calls of grpc.aio do not survive a fork.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import grpc

from lockfast.engines.etcd.messages import WATCH


class Stream:
    """One stream. It is used until it breaks, and then replaced."""

    def __init__(
        self,
        channel: grpc.Channel,
        address: str,
        metadata: tuple[tuple[str, str], ...],
        ring: Callable[[], object],
    ) -> None:
        """Open the stream. It calls `ring` after each message, and when it breaks."""
        self.address = address
        self.metadata = metadata
        self.broken = False
        self._ring = ring
        self._heard: deque[bytes] = deque()
        self._to_send: SimpleQueue[bytes | None] = SimpleQueue()
        call: Any = channel.stream_stream(WATCH, None, None)
        self._call = call(self._requests(), metadata=metadata)
        # A daemon, because it must not keep a finished program alive.
        self._thread = threading.Thread(target=self._read, name="lockfast-watch", daemon=True)
        self._thread.start()

    def _requests(self) -> Iterator[bytes]:
        while (request := self._to_send.get()) is not None:
            yield request

    def _read(self) -> None:
        try:
            for message in self._call:
                self._heard.append(message)
                self._ring()
        except grpc.RpcError:
            pass  # the error does not matter: another stream continues where this one ended
        self.broken = True
        self._ring()

    def send(self, requests: list[bytes]) -> None:
        """Send requests without waiting: grpc takes them from a queue."""
        for request in requests:
            self._to_send.put(request)

    def take(self) -> list[bytes]:
        """Remove and return the messages that have arrived."""
        taken = []
        while self._heard:
            taken.append(self._heard.popleft())
        return taken

    def close(self) -> None:
        """Cancel the stream, and count it as broken."""
        self.broken = True
        self._to_send.put(None)
        self._call.cancel()
