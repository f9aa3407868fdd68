"""Errors cross process boundaries: a worker's pool sends them to its parent."""

from __future__ import annotations

import copy
import pickle
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from lockfast import (
    Deadlock,
    EngineUnavailable,
    KindMismatch,
    LeaseLost,
    LockfastError,
    Loss,
    NotAcquired,
    StaleToken,
)

ERRORS: list[LockfastError] = [
    NotAcquired("x", 1.5, "somebody"),
    LeaseLost("x", 7, Loss.EXPIRED),
    StaleToken("x", 7, 8),
    KindMismatch("x", "lock", "semaphore"),
    Deadlock("a circle", "id"),
    EngineUnavailable("no answer", sent=True),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda each: type(each).__name__)
def test_an_error_says_the_same_after_it_was_pickled_or_copied(error: LockfastError) -> None:
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):  # noqa: S301  # our own
        assert type(other) is type(error)
        assert str(other) == str(error)
        assert vars(other) == vars(error)


def fail() -> None:
    raise LeaseLost("x", 7, Loss.GONE)


def test_an_error_of_a_worker_process_reaches_whoever_waits_for_its_result() -> None:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        with pytest.raises(LeaseLost, match="ticket 7") as caught:
            pool.submit(fail).result()
        assert caught.value.reason is Loss.GONE
        assert pool.submit(int).result() == 0  # the pool goes on


def test_a_message_is_short_however_much_a_server_says() -> None:
    error = EngineUnavailable("etcd at h: " + "\x07" * 2_000_000, sent=True)
    began = time.monotonic()
    assert len(str(error)) < 20_000
    assert time.monotonic() - began < 0.05
    assert len(pickle.dumps(error)) < 20_000
    assert str(error).startswith("etcd at h: ")
    assert str(error).endswith("...")
