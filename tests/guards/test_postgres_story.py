"""Stories with real processes: a holder that was paused, before the write and within it."""

from __future__ import annotations

import time
from typing import Any

import psycopg
import pytest

from lockfast import LeaseLost
from tests.guards import story
from tests.guards.registers.postgres import (
    AsyncMarked,
    Columned,
    Marked,
    Triggered,
)
from tests.servers import Postgres, Redis

Connection = psycopg.Connection[tuple[Any, ...]]


@pytest.mark.parametrize("register", [Marked, AsyncMarked, Columned])
def test_a_holder_that_was_paused_is_refused_and_the_next_ones_value_stands(
    redis: Redis, server: Postgres, register: type[story.Resource]
) -> None:
    story.refused(redis.url, register, server.url, register.__name__)


def test_the_trigger_refuses_the_paused_holder(redis: Redis, server: Postgres) -> None:
    server.command("SELECT lockfast_guard.protect_v1('watched', 'watched')")
    story.refused(redis.url, Triggered, server.url, "watched")


@pytest.mark.parametrize("register", [Marked, AsyncMarked])
def test_with_the_guard_switched_off_the_paused_holder_overwrites(
    redis: Redis, server: Postgres, register: type[story.Resource]
) -> None:
    story.corrupted(redis.url, register, server.url, f"{register.__name__}, bare")


def test_a_stale_transaction_that_is_paused_blocks_the_next_holder_no_longer_than_its_lease(
    redis: Redis, server: Postgres
) -> None:
    with (
        story.Actor(redis.url, Marked, server.url) as a,
        story.Actor(redis.url, Marked, server.url) as b,
    ):
        a.call("acquire", "paused", 1.0)
        a.call("begin", "A, uncommitted")
        a.pause()
        began = time.monotonic()
        b.call("acquire", "paused", 30.0)
        granted = time.monotonic()
        b.call("seal")
        sealed = time.monotonic()
        print(f"granted after {granted - began:.2f} s, sealed {sealed - granted:.2f} s later")  # noqa: T201  # a figure
        assert sealed - began < 1.0 + 1.5
        b.call("write", "B")
        a.resume()
        with pytest.raises(LeaseLost):
            a.call("commit")
        assert b.call("read") == "B"
