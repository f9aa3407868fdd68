"""A load on replicas of the service, while each of them is restarted in turn."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import lockfast
from lockfast import LockfastError, aio
from tests.servers import Replica

TTL = 3.0
WAIT = 5.0  # seconds that each acquisition has
NAMES = 40
HANDS = 8  # of each client
ENDED = 30.0  # seconds for a replica to end, and for the load
HOLDS = (0.01, 0.1, 1.5 * TTL)  # seconds: some leases are renewed, and live through a restart


class Load:
    """Clients that acquire, hold and release, two with threads and two with asyncio."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.pairs = 0
        """Acquisitions and their releases."""
        self.wrong: list[str] = []
        """What failed, and each lease that was lost."""
        self._over = threading.Event()
        self._dice = random.Random(1)  # noqa: S311  # no secret

    def _name(self, hand: int, hold: float) -> str:
        # Who holds for long has a name alone: others would wait in vain, and rightly.
        return f"own:{hand}" if hold > TTL else f"shared:{self._dice.randrange(NAMES)}"

    def _hold(self) -> float:
        return self._dice.choices(HOLDS, (20, 5, 1))[0]

    def _failed(self, what: str, error: LockfastError) -> None:
        self.wrong.append(f"{what}: {type(error).__name__}: {error}")

    def threads(self, client: lockfast.Client, hand: int) -> None:
        """Work until the end, as one thread."""
        while not self._over.is_set():
            hold = self._hold()
            name = self._name(hand, hold)
            try:
                lease = client.lock(name, ttl=TTL).acquire(timeout=WAIT)
                lease.on_lost(lambda name=name: self.wrong.append(f"{name} was lost"))  # type: ignore[misc]
                time.sleep(hold)
                lease.release()
            except LockfastError as error:
                self._failed(name, error)
            self.pairs += 1

    async def task(self, client: aio.AsyncClient, hand: int) -> None:
        """Work until the end, as one task."""
        while not self._over.is_set():
            hold = self._hold()
            name = self._name(hand, hold)
            try:
                lease = await client.lock(name, ttl=TTL).acquire(timeout=WAIT)
                lease.on_lost(lambda name=name: self.wrong.append(f"{name} was lost"))  # type: ignore[misc]
                await asyncio.sleep(hold)
                await lease.release()
            except LockfastError as error:
                self._failed(name, error)
            self.pairs += 1

    def _blocking(self, first: int) -> None:
        with lockfast.connect(self.url) as client:
            hands = [
                threading.Thread(target=self.threads, args=(client, first + n))
                for n in range(HANDS)
            ]
            for hand in hands:
                hand.start()
            for hand in hands:
                hand.join()

    async def _asyncio(self, first: int) -> None:
        async with aio.connect(self.url) as client:
            await asyncio.gather(*(self.task(client, first + n) for n in range(HANDS)))

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run all clients."""
        workers = [
            threading.Thread(target=self._blocking, args=(0,)),
            threading.Thread(target=self._blocking, args=(HANDS,)),
            threading.Thread(target=lambda: asyncio.run(self._asyncio(2 * HANDS))),
            threading.Thread(target=lambda: asyncio.run(self._asyncio(3 * HANDS))),
        ]
        for worker in workers:
            worker.start()
        try:
            yield
        finally:
            self._over.set()
            for worker in workers:
                worker.join(ENDED)
        assert not any(worker.is_alive() for worker in workers)


def restart_each(replicas: Sequence[Replica]) -> None:
    """Restart one replica after the other, each when the one before it serves."""
    for replica in replicas:
        replica.drain()
        replica.drained(ENDED)
        replica.start(ENDED)
