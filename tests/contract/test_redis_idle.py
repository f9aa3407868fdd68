"""Connections that end while idle: a server's timeout, a restart, a NAT that forgets."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Coroutine, Iterator, Sequence

import pytest

from lockfast.core.validity import State
from lockfast.testing import MODES, Stage
from lockfast.testing.harness.verbs import acquire, release, try_acquire
from tests.contract.benches import RedisBench
from tests.servers import Proxy, Redis, RedlockSet


@pytest.fixture(params=sorted(MODES))
def mode(request: pytest.FixtureRequest) -> str:
    assert isinstance(request.param, str)
    return request.param


@pytest.fixture(params=["redis", "redlock"])
def nodes(request: pytest.FixtureRequest) -> Iterator[list[Redis]]:
    if request.param == "redis":
        with Redis() as server:
            yield [server]
    else:
        with RedlockSet(3) as servers:
            yield list(servers.nodes)


class Nat:
    """A way to a server that drops, without a word, what comes on a connection that was idle."""

    def __init__(self, server: Redis, idle: float) -> None:
        self._server = server
        self._idle = idle
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._open: list[socket.socket] = [self._socket]
        self._last: list[list[float]] = []
        self._closed = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            while True:
                near, _ = self._socket.accept()
                self._open.append(near)
                far = socket.create_connection((self._server.host, self._server.port))
                self._open.append(far)
                if self._closed:
                    self.close()  # it was closed in between
                last = [time.monotonic()]
                self._last.append(last)
                for here, there in ((near, far), (far, near)):
                    threading.Thread(
                        target=self._pump, args=(here, there, last), daemon=True
                    ).start()
        except OSError:
            return

    def _pump(self, here: socket.socket, there: socket.socket, last: list[float]) -> None:
        try:
            while data := here.recv(65536):
                if time.monotonic() - last[0] > self._idle:
                    last[0] = -1e9  # for good
                    continue
                last[0] = time.monotonic()
                there.sendall(data)
        except OSError:
            return

    def forget(self) -> None:
        """Drop, from now on, what comes on any connection there is."""
        for last in self._last:
            last[0] = -1e9

    def close(self) -> None:
        self._closed = True
        for each in list(self._open):
            each.close()


def _url(addresses: list[str]) -> str:
    return f"{'redis' if len(addresses) == 1 else 'redlock'}://{','.join(addresses)}"


def _stage(url: str, mode: str) -> Stage:
    return Stage(RedisBench(url), MODES[mode]())


def _run(stage: Stage, play: Coroutine[object, object, None], ways: Sequence[Proxy | Nat]) -> None:
    stage.mode.run(play)
    stage.mode.run(stage.clear())
    stage.mode.close()
    for way in ways:
        way.close()


def test_try_acquire_works_though_every_idle_connection_has_ended(
    nodes: list[Redis], mode: str
) -> None:
    ways = [Proxy(node.host, node.port).start() for node in nodes]
    stage = _stage(_url([way.address for way in ways]), mode)

    async def play() -> None:
        client = stage.client()
        for way in ways:
            way.delay(0.1)  # so that each of them needs a connection
        jobs = [try_acquire(client.lock(f"{n}", ttl=30)) for n in range(8)]
        leases = await stage.mode.together(*jobs)
        for way in ways:
            way.delay(0.0)
            way.reset()
        for n in range(3):
            lease = await try_acquire(client.lock(f"after {n}", ttl=30))
            assert lease is not None
            await release(lease)
        for each in leases:
            assert each is not None
            await release(each)

    _run(stage, play(), ways)


def test_leaving_a_block_behind_a_nat_that_forgets_is_quick(nodes: list[Redis], mode: str) -> None:
    ways = [Nat(node, 2.3) for node in nodes]
    stage = _stage(_url([way.address for way in ways]), mode)

    async def play() -> None:
        lease = await acquire(stage.client().lock("x", ttl=6), 5)
        await stage.mode.sleep(3.0)
        assert lease.state is State.HELD
        began = time.monotonic()
        await release(lease)
        assert time.monotonic() - began < 2.0

    _run(stage, play(), ways)


def test_a_lease_outlives_a_nat_that_forgets_while_the_heart_is_busy(
    nodes: list[Redis], mode: str
) -> None:
    """A heart that renews every 1.7 s finds its connection never idle for long. On asyncio it
    went on asking there until the connection was given up, and the lease was lost before.
    """
    ways = [Nat(node, 60.0) for node in nodes]
    stage = _stage(_url([way.address for way in ways]), mode)

    async def play() -> None:
        lease = await acquire(stage.client().lock("x", ttl=5), 5)
        await stage.mode.sleep(1.9)
        for way in ways:
            way.forget()
        await stage.mode.sleep(6.0)
        assert lease.state is State.HELD
        await release(lease)

    _run(stage, play(), ways)
