"""The register: a log behind the guard, and its twin without one, on a healthy Redis of its own."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import redis
import redis.asyncio
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.retry import Retry

from lockfast.errors import StaleToken
from lockfast.guards.redis import AsyncRedisGuard, RedisGuard
from lockfast.primitives.lease import LeaseCore
from lockfast.testing.harness.mode import Mode, Threaded
from tests.robustness.history import Kind, Outcome
from tests.robustness.traffic.clock import now
from tests.robustness.traffic.recorder import Recorder


class Entry(NamedTuple):
    """One applied write."""

    token: int
    id: str
    value: str
    saw: str
    """The value that stood there before, as its writer had read it."""


def key(name: str, *, fenced: bool) -> str:
    """Name a log."""
    return f"{'fenced' if fenced else 'bare'}:{name}"


def entries(words: Sequence[bytes]) -> list[Entry]:
    """Read a log."""
    return [Entry(*json.loads(word)) for word in words]


class Register:
    """A worker's way to the register, in its mode.

    No retry of the driver's: a write that was applied and not answered would be applied twice.
    """

    def __init__(self, url: str, mode: Mode, recorder: Recorder) -> None:
        self._recorder = recorder
        self._guard: RedisGuard | AsyncRedisGuard
        self._client: redis.Redis | redis.asyncio.Redis
        if isinstance(mode, Threaded):
            self._client = redis.Redis.from_url(url, retry=Retry(NoBackoff(), 0))
            self._guard = RedisGuard(self._client)
        else:
            self._client = redis.asyncio.Redis.from_url(url, retry=AsyncRetry(NoBackoff(), 0))
            self._guard = AsyncRedisGuard(self._client)

    async def opened(self, lease: LeaseCore) -> Pen | None:
        """Seal, and read what stands there; None if the seal was refused."""
        began = now()
        self._recorder.wrote(Kind.SEAL, lease, began, Outcome.UNKNOWN)
        try:
            await self._guard._seal(lease)
        except StaleToken:
            self._recorder.wrote(Kind.SEAL, lease, began, Outcome.NO)
            return None
        self._recorder.wrote(Kind.SEAL, lease, began, Outcome.OK)
        return Pen(
            self._guard,
            self._recorder,
            lease,
            await self._last(lease.name, fenced=True),
            await self._last(lease.name, fenced=False),
        )

    async def _last(self, name: str, *, fenced: bool) -> str:
        word: Any = await self._guard._send("LINDEX", key(name, fenced=fenced), -1)
        return "" if word is None else Entry(*json.loads(word)).value

    async def close(self) -> None:
        if isinstance(self._client, redis.Redis):
            self._client.close()
        else:
            await self._client.aclose()


class Pen:
    """What a holder writes with. It never asks whether it still holds: that is the point."""

    def __init__(
        self,
        guard: RedisGuard | AsyncRedisGuard,
        recorder: Recorder,
        lease: LeaseCore,
        saw: str,
        saw_bare: str,
    ) -> None:
        self._guard = guard
        self._recorder = recorder
        self._lease = lease
        self._saw = saw
        self._saw_bare = saw_bare

    async def write(self, value: str) -> bool:
        """Write to the twin and, in the same moment, to the register; False if that refused."""
        lease, recorder = self._lease, self._recorder
        began = now()
        twin = json.dumps(Entry(lease.token, lease.id, value, self._saw_bare))
        await self._guard._send("RPUSH", key(lease.name, fenced=False), twin)
        recorder.wrote(Kind.WRITE, lease, began, Outcome.OK, value, fenced=False)
        self._saw_bare = value
        began = now()
        recorder.wrote(Kind.WRITE, lease, began, Outcome.UNKNOWN, value)
        entry = json.dumps(Entry(lease.token, lease.id, value, self._saw))
        try:
            await self._guard._apply(lease, [("RPUSH", key(lease.name, fenced=True), entry)])
        except StaleToken:
            recorder.wrote(Kind.WRITE, lease, began, Outcome.NO, value)
            return False
        recorder.wrote(Kind.WRITE, lease, began, Outcome.OK, value)
        self._saw = value
        return True
