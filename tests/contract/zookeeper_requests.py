"""Requests to ZooKeeper on their way through a proxy."""

from __future__ import annotations

from collections.abc import Iterator

from lockfast.testing import Stage
from tests.contract.benches import ZooKeeperBench
from tests.servers import Proxy

CREATE = (15).to_bytes(4, "big")  # the operation of create2, behind length and number
WRITE = (5).to_bytes(4, "big")  # that of setData


def through(stage: Stage, proxy: Proxy) -> str:
    """Let the clients that follow go by way of the proxy; give the URL past it."""
    bench = stage.bench
    assert isinstance(bench, ZooKeeperBench)
    past = bench.url
    bench.url = f"zookeeper://{proxy.address}/{bench.url.split('/', 3)[3]}"
    return past


def is_create(request: bytes) -> bool:
    """Recognise create2; requests that are sent together may come in one read."""
    return CREATE in [request[at : at + 4] for at in _operations(request)]


def is_write(request: bytes) -> bool:
    """Recognise setData."""
    return WRITE in [request[at : at + 4] for at in _operations(request)]


def _operations(request: bytes) -> Iterator[int]:
    at = 0
    while at + 12 <= len(request):
        yield at + 8
        at += 4 + int.from_bytes(request[at : at + 4], "big")
