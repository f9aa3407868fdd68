"""Ten thousand Ctrl-C, at random moments of acquire and release, leave nothing behind."""

from __future__ import annotations

import json
import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import pytest

import lockfast
from tests.interrupts.storm import TTL
from tests.servers import Redis, ServerError, wait_until

_ROOT = Path(__file__).parents[2]
FEW = ["few:1", "few:2", "few:3"]
HEARTBEAT = TTL / 3
# What the victim does, and how often it is interrupted in that.
ORDERS = {
    "timer plain new": 2000,
    "timer block new": 2000,
    "timer attempt new": 1500,
    f"timer plain {','.join(FEW)}": 1400,
    f"timer block {','.join(FEW)}": 1400,
    f"timer attempt {','.join(FEW)}": 600,
    "outside plain new": 500,
    f"outside block {','.join(FEW)}": 500,
    "first": 100,
}

SHAPES = {
    "shape many new": 400,
    f"shape many {','.join(FEW)}": 300,
    "shape many_plain new": 300,
    "shape again new": 400,
    f"shape again {','.join(FEW)}": 200,
}


class Victim:
    """The program under the storm (see storm.py), seen from outside."""

    def __init__(self, url: str) -> None:
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the victim
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.interrupts.storm", url],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdin, self._stdout = self.process.stdin, self.process.stdout

    def order(self, line: str, patience: float = 100.0) -> dict[str, Any]:
        """Give an order and wait for the answer; an order from outside gets its SIGINTs."""
        self._stdin.write(line + "\n")
        self._stdin.flush()
        pause = (2e-4, 1.5e-3) if line.startswith("outside") else (patience, patience)
        deadline = time.monotonic() + patience
        while not self._answered(random.uniform(*pause)):  # noqa: S311  # no secret
            if time.monotonic() > deadline:
                self.process.send_signal(signal.SIGUSR1)
                self._answered(0.5)
                pytest.fail(f"{line!r} hangs:\n{self.noise()}")
            os.kill(self.process.pid, signal.SIGINT)
        answer = self._stdout.readline()
        assert answer, f"{line!r} ended the victim:\n{self.noise()}"
        said: dict[str, Any] = json.loads(answer)
        return said

    def _answered(self, seconds: float) -> bool:
        return bool(select.select([self._stdout], [], [], seconds)[0])

    def noise(self, dropped: Iterable[str] = ()) -> str:
        """Tell what it wrote to stderr that a user would wonder about.

        Python itself says when an interrupt fell into a finalizer, which cannot raise, and when
        it fell between the making and the starting of a coroutine. Of a lease whose release was
        never begun, lockfast says that it was `dropped`.
        """
        self._stderr.seek(0)
        said = self._stderr.read()
        said = re.sub(r"Exception ignored in:.*\n(?:.*\n)*?KeyboardInterrupt.*\n", "", said)
        for name in dropped:
            several = rf"'{re.escape(name)}'(?:, '[^']*')*"
            warned = rf"a lease on {several} was dropped without release\(\): .*\n"
            said = re.sub(rf"(?m)^/.*: RuntimeWarning: {warned}  .*\n|^{warned}", "", said)
        never = r".*RuntimeWarning: coroutine .* was never awaited\n(?:  .*\n)?"
        return re.sub(never + r"(?:RuntimeWarning: Enable tracemalloc.*\n)?", "", said)

    def close(self) -> int:
        """End it in good order."""
        self._stdin.close()
        try:
            return self.process.wait(10.0)
        finally:
            self.process.kill()
            self.process.wait()
            self._stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with suppress(OSError):
            self.close()
        self._stderr.close()


@contextmanager
def rival(url: str, waits: list[float]) -> Iterator[None]:
    """Contend for the few names from another client, and tell how long that had to wait."""
    over = threading.Event()

    def contend() -> None:
        with lockfast.connect(url) as client:
            while not over.is_set():
                began = time.monotonic()
                lock = client.lock(random.choice(FEW), ttl=TTL, timeout=TTL + 1.0)  # noqa: S311  # no secret
                with suppress(lockfast.NotAcquired), lock:
                    over.wait(random.uniform(0.0, 5e-4))  # noqa: S311  # no secret
                waits.append(time.monotonic() - began)

    thread = threading.Thread(target=contend)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with Redis() as started:
        yield started


def held(server: Redis) -> set[str]:
    """Tell the names that have a claim."""
    keys = server.command("KEYS", "lockfast:{*}=*")
    assert isinstance(keys, list)
    names = {key.decode().partition("=")[2] for key in keys if isinstance(key, bytes)}
    return {name.partition(".")[0] for name in names}


def test_there_are_ten_thousand_interrupts() -> None:
    assert sum(ORDERS.values()) == 10_000


@pytest.mark.parametrize("order", SHAPES)
def test_ctrl_c_leaves_no_orphan_of_any_shape_behind(server: Redis, order: str) -> None:
    weather(server, order, SHAPES[order])


@pytest.mark.parametrize("order", ORDERS)
def test_ctrl_c_leaves_no_orphan_behind(server: Redis, order: str) -> None:
    weather(server, order, ORDERS[order])


def weather(server: Redis, order: str, count: int) -> None:
    """Let a victim be interrupted so often, and look for what that has left."""
    server.command("FLUSHALL")
    waits: list[float] = []
    with Victim(server.url) as victim:
        victim.order(f"check {','.join(FEW)}")  # once it answers, signals are its own to handle
        with rival(server.url, waits):
            said = victim.order(f"{order} {count}")
        scars, doors = said["scars"], said["doors"]
        assert said["hits"] == count
        assert said["inside"] >= 0.6 * said["hits"], "most must hit inside lockfast"

        # Within a heartbeat, nothing is left of what was interrupted inside; of a `with lock:`,
        # nothing wherever it was interrupted.
        whole = "block" in order or "many " in order or "again" in order
        spared = set() if whole else set(doors)
        with suppress(ServerError):
            wait_until(lambda: held(server) <= spared, "gone", HEARTBEAT + 0.5)
        orphans = {name: scars.get(name, doors.get(name)) for name in held(server) - spared}
        assert not orphans, f"{len(orphans)} of {said['hits']} left an orphan"
        # A lease whose release was never begun is one that was dropped: its ttl ends it.
        with suppress(ServerError):
            wait_until(lambda: not held(server), "gone", TTL + HEARTBEAT)
        assert not {name: doors[name] for name in held(server)}, "held for ever"
        assert sum(wait > HEARTBEAT + 0.5 for wait in waits) <= len(doors)

        with lockfast.connect(server.url) as other:
            for name in FEW:
                assert other.lock(name).queue() == []
                with other.lock(name, timeout=0.0) as lease:
                    lease.ensure_held()
        assert victim.order(f"check {','.join(FEW)}") == {"claims": [], "hearts": 1}
        assert victim.close() == 0
        assert victim.noise(dropped=doors) == ""
