"""Deadlines hold: under signals, under gevent, and when a server trickles its replies."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

import lockfast
from lockfast import aio
from lockfast.engines.redis.aio import AioTransport
from lockfast.engines.redis.aio_connection import Connection
from lockfast.engines.redis.transport import Address
from lockfast.errors import EngineUnavailable, LockfastError, NotAcquired
from lockfast.testing import MODES, Stage
from lockfast.testing.harness.verbs import acquire
from tests.contract.benches import RedisBench
from tests.servers import Redis, RedlockSet

SOON = 4.0  # seconds; without its deadline, an acquisition would take for ever


@pytest.fixture(params=["redis", "redlock"])
def servers(request: pytest.FixtureRequest) -> Iterator[tuple[str, Redis]]:
    if request.param == "redis":
        with Redis() as server:
            yield server.url, server
    else:
        with RedlockSet(1) as several:
            yield several.url, several.nodes[0]


@contextlib.contextmanager
def _signals(hertz: float) -> Iterator[None]:
    """Interrupt the main thread, as a profiler or a progress bar does."""
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    ended = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def send() -> None:
        while not ended.wait(1 / hertz):
            signal.pthread_kill(main, signal.SIGUSR1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        ended.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_acquire_ends_in_time_though_signals_come_20_times_a_second(
    servers: tuple[str, Redis],
) -> None:
    url, server = servers
    with lockfast.connect(url) as client:
        client.lock("x", ttl=30).acquire().release()
        server.pause()
        try:
            with _signals(20):
                began = time.monotonic()
                with pytest.raises((EngineUnavailable, NotAcquired)):
                    client.lock("x", ttl=30).acquire(timeout=1)
                assert time.monotonic() - began < SOON
        finally:
            server.resume()


class Trickle:
    """A way to a server whose replies come, once it was told, a byte every 0.3 s."""

    def __init__(self, server: Redis) -> None:
        self._server = server
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self.slow = threading.Event()
        self.ended = threading.Event()
        self._open: list[socket.socket] = [self._socket]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._socket.accept()
                far = socket.create_connection((self._server.host, self._server.port))
                self._open += [near, far]
                threading.Thread(target=self._pump, args=(near, far), daemon=True).start()
                threading.Thread(target=self._pump, args=(far, near, True), daemon=True).start()

    def _pump(self, here: socket.socket, there: socket.socket, slow: bool = False) -> None:  # noqa: FBT001, FBT002  # a direction
        with contextlib.suppress(OSError):
            while data := here.recv(65536):
                if not (slow and self.slow.is_set()):
                    there.sendall(data)
                    continue
                for each in data:
                    if self.ended.wait(0.3):
                        return
                    there.sendall(bytes([each]))

    def close(self) -> None:
        self.ended.set()
        for each in self._open:
            each.close()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_acquire_ends_in_time_though_a_byte_comes_every_third_of_a_second(
    servers: tuple[str, Redis], mode: str
) -> None:
    url, server = servers
    way = Trickle(server)
    scheme = url.partition(":")[0]
    stage = Stage(RedisBench(f"{scheme}://127.0.0.1:{way.port}"), MODES[mode]())

    async def play() -> None:
        client = stage.client()
        await acquire(client.lock("warm", ttl=30))
        way.slow.set()
        began = time.monotonic()
        with pytest.raises((EngineUnavailable, NotAcquired)):
            await acquire(client.lock("x", ttl=30), 1)
        assert time.monotonic() - began < SOON
        way.slow.clear()

    try:
        stage.mode.run(play())
        stage.mode.run(stage.clear())
    finally:
        stage.mode.close()
        way.close()


GEVENT = """
import gevent.monkey
gevent.monkey.patch_all()
import os, signal, sys, time
import gevent
import lockfast
url, pid = sys.argv[1], int(sys.argv[2])
client = lockfast.connect(url)
with client.lock("x", ttl=30) as lease:
    waiting = gevent.spawn(lambda: client.lock("x", ttl=30).acquire(timeout=5).token)
    gevent.sleep(0.2)
assert waiting.get() > lease.token
os.kill(pid, signal.SIGSTOP)
began = time.monotonic()
try:
    client.lock("y", ttl=30).acquire(timeout=1)
except (lockfast.EngineUnavailable, lockfast.NotAcquired):
    print("ended after", round(time.monotonic() - began, 1), flush=True)
finally:
    os.kill(pid, signal.SIGCONT)
    os._exit(0 if time.monotonic() - began < 4.0 else 1)
"""


def test_acquire_ends_in_time_under_gevent(servers: tuple[str, Redis]) -> None:
    url, server = servers
    argv = [sys.executable, "-W", "ignore", "-c", GEVENT, url, str(server.pid)]
    try:
        done = subprocess.run(argv, timeout=20, check=False, capture_output=True, text=True)
    finally:
        server.resume()
    assert done.stdout.startswith("ended after"), done.stderr
    assert done.returncode == 0, done.stdout


def test_a_call_does_not_hang_if_its_connection_ends_before_its_task_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A request on a connection that had just ended was never sent, and waited for ever."""
    opened = AioTransport._opened

    def ends(transport: AioTransport, address: Address, task: asyncio.Task[Connection]) -> None:
        opened(transport, address, task)
        task.result().drop("the server closed the connection")

    async def main(url: str) -> None:
        async with aio.connect(url) as client:
            with monkeypatch.context() as patch:
                patch.setattr(AioTransport, "_opened", ends)
                async with asyncio.timeout(10):
                    with pytest.raises(EngineUnavailable, match="the connection ended"):
                        await client.lock("x").queue()
            assert await client.lock("x").queue() == []

    with Redis() as server:
        asyncio.run(main(server.url))


def test_an_unreachable_network_does_not_stop_the_event_loop() -> None:
    """Connecting failed without a pause, and so did the heart's next attempt, for ever."""

    async def main(server: Redis) -> int:
        attempts = 0

        async def unreachable(*_: object, **__: object) -> None:
            nonlocal attempts
            attempts += 1
            if attempts > 500:  # otherwise this test would hang
                raise SystemExit("the loop stands still")
            raise OSError(errno.ENETUNREACH, "Network is unreachable")

        loop = asyncio.get_running_loop()
        async with aio.connect(server.url) as client, aio.connect(server.url) as other:
            held = await other.lock("x", ttl=30.0).acquire()
            waiting = asyncio.create_task(client.lock("x", ttl=30.0).acquire(timeout=20))
            await asyncio.sleep(0.3)
            loop.create_connection = unreachable  # type: ignore[method-assign, assignment]
            server.kill()
            await asyncio.sleep(2.0)
            counted = attempts
            waiting.cancel()
            with contextlib.suppress(asyncio.CancelledError, LockfastError):
                await waiting
            with contextlib.suppress(LockfastError):
                await held.release()
        return counted

    with Redis() as server:
        assert asyncio.run(main(server)) < 100  # two clients, ten times a second each
