"""On an ensemble of three: as many kazoo calls one after the other, and kazoo's own lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock

from benchmarks.against import Against
from benchmarks.duel import NAME, TTL, duel
from benchmarks.rounds import Work
from tests.servers import ZooKeeperEnsemble

PAYLOAD = b"p" * 120


@contextmanager
def start() -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble(tick=2000, properties={"zookeeper.forceSync": "yes"}) as ensemble:
        yield ensemble


@contextmanager
def _connected(url: str) -> Iterator[KazooClient]:
    client = KazooClient(url.removeprefix("zookeeper://"), timeout=TTL)
    client.start()
    try:
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def pairs(ensemble: ZooKeeperEnsemble) -> Iterator[dict[str, Work]]:
    with _connected(ensemble.url) as bare, _connected(ensemble.url) as theirs:
        bare.ensure_path("/bare")
        yield {"bare": _bare(bare), "kazoo's Lock": _lock(theirs.Lock("/kazoo"))}


def _bare(client: KazooClient) -> Work:
    """The floor: what a recipe that gives the token calls at least, and each is waited for."""

    def work(count: int) -> None:
        for _ in range(count):
            path, _ = client.create(
                f"/bare/{1:032x}-1-1_1_0000000001-",
                PAYLOAD,
                ephemeral=True,
                sequence=True,
                include_data=True,
            )
            if len(client.get_children("/bare")) != 1:
                raise AssertionError("the bare claim was not alone")
            client.delete(path)

    return work


def _lock(lock: Lock) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            lock.acquire()
            lock.release()

    return work


def _duel(pipe: Connection, _side: int, url: str) -> None:
    with _connected(url) as client:
        lock = client.Lock(f"/{NAME}")
        duel(pipe, lock.acquire, lambda _: lock.release())


AGAINST = Against(
    start=start,
    pairs=pairs,
    locks={"kazoo's Lock": _duel},
    members=lambda ensemble: [server.pid for server in ensemble.servers],
)
