"""A stream of watches: read by a thread for threads and asyncio.

In asyncio too: a reader task would be cancelled by Ctrl-C beside the bodies that need it
(trap 52), and what grpc.aio has open does not survive a fork.
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
        """Open it, and ring whenever something was heard."""
        self.address = address
        self.metadata = metadata
        self.broken = False
        self._ring = ring
        self._heard: deque[bytes] = deque()
        self._to_send: SimpleQueue[bytes | None] = SimpleQueue()
        call: Any = channel.stream_stream(WATCH, None, None)
        self._call = call(self._requests(), metadata=metadata)
        # A daemon: it must not keep a finished program alive.
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
            pass  # what it was is of no interest: another stream goes on where this one ended
        self.broken = True
        self._ring()

    def send(self, requests: list[bytes]) -> None:
        """Send, without waiting."""
        for request in requests:
            self._to_send.put(request)

    def take(self) -> list[bytes]:
        """Take what was heard."""
        taken = []
        while self._heard:
            taken.append(self._heard.popleft())
        return taken

    def close(self) -> None:
        """End it."""
        self.broken = True
        self._to_send.put(None)
        self._call.cancel()
