"""How tests call the command line, and whom it is to see."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import pytest

import lockfast
from lockfast.cli.app import launch
from tests.servers import wait_until

LONG = 30.0


class Said(NamedTuple):
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """What it said to a program."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def words(self) -> str:
        """What it said, however it was broken into lines."""
        return " ".join(self.out.split())


class Calls:
    """The command line on one engine, called within this process."""

    def __init__(self, url: str, capsys: pytest.CaptureFixture[str]) -> None:
        self.url = url
        self._capsys = capsys

    def __call__(self, *args: str) -> Said:
        self._capsys.readouterr()
        code = launch(["--url", self.url, *args])
        return Said(code, *self._capsys.readouterr())


@contextmanager
def awaited(url: str, name: str, **options: Any) -> Iterator[lockfast.Lease]:  # noqa: ANN401  # of `lock`
    """Hold a lock for which another client waits."""
    with lockfast.connect(url) as client, lockfast.connect(url) as other:
        lease = client.lock(name, ttl=LONG, **options).acquire()

        def wait() -> None:
            other.lock(name, ttl=LONG, purpose="to be next").acquire(timeout=60).release()

        thread = threading.Thread(target=wait)
        thread.start()
        try:
            wait_until(lambda: len(client.lock(name).queue()) == 2, f"somebody waits for {name}")
            yield lease
        finally:
            with suppress(lockfast.LeaseLost):
                lease.release()
            thread.join(30)


@contextmanager
def crossed(url: str) -> Iterator[None]:
    """Two threads of two clients that look for no circle wait for each other."""
    both = threading.Barrier(2)

    def cross(first: str, second: str) -> None:
        with lockfast.connect(url, deadlock_after=None) as client:
            lease = client.lock(first, ttl=LONG, purpose=f"from {first} to {second}").acquire()
            both.wait()
            # Either may be the one that is broken, a moment before its release too.
            with suppress(lockfast.LeaseLost):
                client.lock(second, ttl=LONG).acquire(timeout=60).release()
            with suppress(lockfast.LeaseLost):
                lease.release()

    threads = [
        threading.Thread(target=cross, args=names)
        for names in (("left", "right"), ("right", "left"))
    ]
    for thread in threads:
        thread.start()
    with lockfast.connect(url) as operator:
        wait_until(lambda: len(operator.inspect()) == 4, "both wait")
        try:
            yield
        finally:
            for claim in operator.inspect("left")[:1]:
                operator.revoke(claim, "the test is over")
            for thread in threads:
                thread.join(30)
