"""Driving shared coroutines without a loop."""

from __future__ import annotations

import asyncio

import pytest

from lockfast.runtime.drive import blocking, drive


async def answer() -> int:
    return 42


class Thing:
    async def _answer(self, plus: int = 0) -> int:
        return await answer() + plus

    async def _sleep(self) -> None:
        await asyncio.sleep(0)

    answer = blocking(_answer)
    sleep = blocking(_sleep)


def test_the_value_comes_out() -> None:
    assert drive(answer()) == 42
    assert Thing().answer(plus=1) == 43


def test_a_coroutine_that_suspends_is_a_loud_bug() -> None:
    with pytest.raises(RuntimeError, match="must block"):
        drive(asyncio.sleep(0))
    with pytest.raises(RuntimeError, match="must block"):
        Thing().sleep()


def test_errors_pass_with_one_traceback() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        drive(fail())
