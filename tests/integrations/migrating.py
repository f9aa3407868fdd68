"""What the tests of migrations share: a database, and programs that all start at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import lockfast
from tests.servers import Postgres, Redis, wait_until

EXAMPLES = Path(__file__).parents[2] / "docs" / "how-to" / "examples"
LONG = 60.0


class Place(NamedTuple):
    """Where a program runs, and what it finds there."""

    postgres: Postgres
    redis: Redis
    home: Path

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Start a program of the example's folder."""
        found = {
            "PGPORT": str(self.postgres.port),
            "PGUSER": "postgres",
            "REDIS_URL": self.redis.url,
        }
        return subprocess.Popen(
            [sys.executable, *argv],
            cwd=self.home,
            env={**os.environ, **found},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def all_at_once(self, name: str, *argv: str) -> list[str]:
        """Start three, and let them go when all wait for the lock; give what each said."""
        with lockfast.connect(self.redis.url) as client:
            lock = client.lock(name)
            lease = lock.acquire()
            started = [self.start(*argv) for _ in range(3)]
            try:
                wait_until(lambda: len(lock.queue()) == 4, f"three wait for {name}", LONG)
            finally:
                lease.release()
        return self.ended(started)

    @staticmethod
    def ended(started: list[subprocess.Popen[str]]) -> list[str]:
        """Wait until they have succeeded, and give what each said."""
        try:
            said = [each.communicate(timeout=LONG)[0] for each in started]
        finally:
            for each in started:
                each.kill()
                each.wait()
        for each, text in zip(started, said, strict=True):
            assert each.returncode == 0, text
        return said


@contextmanager
def place(example: str) -> Iterator[Place]:
    """Start the servers of an example."""
    with Postgres() as postgres, Redis() as redis:
        postgres.command("CREATE DATABASE app")
        yield Place(postgres, redis, EXAMPLES / example)
