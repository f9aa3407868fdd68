"""A ledger: writes that ZooKeeper acknowledged to a client that is not ours, and which it lost.

A server that loses what it acknowledged breaks every promise that is built on it, and from the
histories of our own clients alone that cannot be told from a bug of theirs.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
from collections.abc import Iterator, Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.retry import KazooRetry

from tests.robustness.traffic.clock import now
from tests.servers.process import ServerError

_PAGE = "/ledger"
_PACE = 0.05  # seconds between two entries by way of one server
_LOOKS = 20  # entries between two looks
_ANSWER = 2.0  # seconds for one answer
_LAST = 30.0  # seconds for the last look
_SILENT = logging.getLogger("ledger")  # it would tell of every fault
_SILENT.disabled = True


class Ledger:
    """Writes by way of each server, and looks at each for what all of them acknowledged."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """Take host:port of each server."""
        self.told: dict[str, float] = {}
        """What was acknowledged, and when."""
        self.lost: dict[str, float] = {}
        """What of it a server did not have, later."""
        self._ended = threading.Event()
        self._unread = set(addresses)
        self._writers = [
            threading.Thread(target=self._keep, args=(place, address), name=f"ledger-{place}")
            for place, address in enumerate(addresses)
        ]

    def start(self) -> None:
        """Begin to write."""
        for writer in self._writers:
            writer.start()

    def close(self) -> None:
        """Look at every server once more, and end."""
        self._ended.set()
        for writer in self._writers:
            if writer.ident is not None:
                writer.join()

    def since(self) -> float | None:
        """End; tell when the first of what was lost had been acknowledged."""
        self.close()
        if self._unread:
            unread = ", ".join(sorted(self._unread))
            raise ServerError(f"the ledger was not read to its end at {unread}")
        return min(self.lost.values(), default=None)

    def _keep(self, place: int, address: str) -> None:
        with _connected(address) as client:
            for number in itertools.count(1):
                if self._ended.wait(_PACE):
                    break
                with contextlib.suppress(KazooException, KazooTimeoutError):
                    self._write(client, f"{place}-{number}", look=not number % _LOOKS)
        # Anew: who has seen what a server lost is refused by it.
        with _connected(address) as client:
            deadline = time.monotonic() + _LAST
            for number in itertools.count(1):
                with contextlib.suppress(KazooException, KazooTimeoutError):
                    self._write(client, f"{place}-last-{number}", look=True)
                    self._unread.discard(address)
                    return
                if time.monotonic() > deadline:
                    return
                time.sleep(_PACE)

    def _write(self, client: KazooClient, name: str, *, look: bool) -> None:
        """Write an entry, and perhaps look for all that were acknowledged before it was sent: who
        has it has those too, even a server that was cut off until then.
        """
        before = dict(self.told) if look else {}
        client.create_async(f"{_PAGE}/{name}", makepath=True).get(timeout=_ANSWER)
        self.told[name] = now()
        if look:
            try:
                there = set(client.get_children_async(_PAGE).get(timeout=_ANSWER))
            except NoNodeError:
                there = set()
            self.lost.update({each: before[each] for each in before.keys() - there})


@contextlib.contextmanager
def _connected(address: str) -> Iterator[KazooClient]:
    client = KazooClient(
        address,
        connection_retry=KazooRetry(max_tries=-1, delay=0.1, backoff=1),
        logger=_SILENT,
    )
    client.start_async()
    try:
        yield client
    finally:
        client.stop()
        client.close()
