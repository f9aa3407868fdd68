"""Mistakes that are easily made: the error says what to write instead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import lockfast
from lockfast import aio


def _with(lock: Any) -> None:  # noqa: ANN401  # whatever a user may enter
    with lock:
        raise AssertionError("it was entered")


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        (
            lambda client: _with(client.rwlock("x")),
            r"TypeError: .*use its \.read\(\) or \.write\(\)",
        ),
        (lambda client: client.rwlock("x").acquire(), r"AttributeError: .*\.read\(\) or \.write"),
        (lambda client: client.lock_all(["a", "b"]), r"TypeError: .*lock_all\(\*names\)"),
        (lambda client: client.semaphore("s", 0), r"ValueError: capacity must be 1 to \d+, not 0"),
        (
            lambda client: client.semaphore("s", 3, permits=4),
            r"ValueError: permits must be 1 to .* 3, not 4",
        ),
        (
            lambda client: client.semaphore("s", 3, permits="1"),
            "TypeError: permits must be a whole",
        ),
        (lambda client: client.lock("g")(type("K", (), {})), "TypeError: K is a class: decorate"),
        (lambda client: client.lock("a:{")(_with), "TypeError: the name 'a:{' for _with cannot"),
        (lambda client: client.lock("x", ttl=5, at_least=9), "ValueError: .*Raise the ttl"),
        (lambda client: client.lock("x", timeout=-1), "ValueError: timeout must be 0 seconds or m"),
        (lambda client: client.revoke("x", "stuck"), "TypeError: .*one that inspect"),
        (lambda _: lockfast.connect(5), "TypeError: url must be a str, such as redis://"),  # type: ignore[arg-type]
        (lambda _: lockfast.connect("memory://", deadlock_after="x"), "TypeError: deadlock_after"),  # type: ignore[arg-type]
    ],
)
def test_an_easy_mistake_is_answered_with_what_to_write(
    mistake: Callable[[Any], object], said: str
) -> None:
    with (
        lockfast.connect("memory://") as client,
        pytest.raises((TypeError, ValueError, AttributeError)) as wrong,
    ):
        mistake(client)
    told = f"{type(wrong.value).__name__}: {wrong.value}"
    wrong.match(said.partition(": ")[2])
    assert told.startswith(said.partition(": ")[0])


@pytest.mark.parametrize(
    ("timeout", "error", "said"),
    [
        (float("nan"), ValueError, "timeout must be 0 seconds or more, not nan"),
        (-1, ValueError, "timeout must be 0 seconds or more, not -1"),
        (True, TypeError, "timeout must be a number of seconds or None, not True"),
    ],
)
def test_a_wrong_timeout_of_wait_lost_is_refused(
    timeout: float, error: type[Exception], said: str
) -> None:
    with lockfast.connect("memory://") as client, client.lock_all("a", "b") as leases:
        for lease in (leases, leases.leases["a"]):
            with pytest.raises(error, match=said):
                lease.wait_lost(timeout)

    async def play() -> None:
        async with aio.connect("memory://") as client, client.lock("a") as lease:
            with pytest.raises(error, match=said):
                await lease.wait_lost(timeout)

    asyncio.run(play())


@pytest.mark.parametrize(
    ("every", "error"),
    [(0, ValueError), (-1.0, ValueError), (float("nan"), ValueError), (True, TypeError)],
)
def test_an_election_is_not_observed_without_a_pause(every: float, error: type[Exception]) -> None:
    with (
        lockfast.connect("memory://") as client,
        pytest.raises(error, match="every must be a number"),
    ):
        client.election("e").observe(every)

    async def play() -> None:
        async with aio.connect("memory://") as client:
            with pytest.raises(error, match="every must be a number"):
                client.election("e").observe(every)

    asyncio.run(play())


def test_a_read_write_lock_is_not_entered_by_a_task_either() -> None:
    async def play() -> None:
        async with aio.connect("memory://") as client:
            lock: Any = client.rwlock("x")
            async with lock:
                raise AssertionError("it was entered")

    with pytest.raises(TypeError, match=r"use its \.read\(\) or \.write\(\)"):
        asyncio.run(play())


async def _stop() -> None:
    raise AssertionError("nobody awaits it")


def test_a_callback_that_nobody_would_await_is_refused() -> None:
    with lockfast.connect("memory://") as client, client.lock_all("a", "b") as leases:
        one = leases.leases["a"]
        callbacks = [leases.on_lost, one.on_lost, one.on_contended]
        for register in callbacks:
            with pytest.raises(TypeError, match="a callback must be a plain function"):
                register(_stop)


def test_a_level_that_no_setting_reaches_is_answered_with_another_engine() -> None:
    with (
        lockfast.connect("memory://", require="consensus") as client,
        pytest.raises(lockfast.GuaranteeMissing, match="No setting of this engine gives consensus"),
    ):
        client.lock("x").acquire()
