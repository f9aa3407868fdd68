"""A crowd of threads that want a processor is seen, and one that waits for other things is not."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.robustness import crowd
from tests.robustness.crowd import Crowd
from tests.servers import wait_until


def runnable(count: int) -> Callable[[], int]:
    return lambda: count


def test_too_many_for_a_second_are_one_span(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0))
    monkeypatch.setattr(crowd, "_runnable", runnable(3 * cores + 1))
    with Crowd() as seen:
        wait_until(lambda: seen.share > 0.1, "it is seen")
    assert len(seen.spans) == 1


def test_as_many_as_can_be_served_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[int] = []

    def look() -> int:
        looks.append(1)
        return 3

    monkeypatch.setattr(crowd, "_runnable", look)
    with Crowd() as seen:
        wait_until(lambda: len(looks) > 5, "it has looked")
    assert seen.spans == []
    assert seen.share == 0.0


def test_the_kernel_is_asked() -> None:
    assert crowd._runnable() >= 1  # this thread
