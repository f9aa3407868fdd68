"""Tickets by hybrid clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.token import LIMIT, mint

micros = st.integers(0, LIMIT - 1000)


@given(st.lists(micros, min_size=1))
def test_they_increase_whatever_the_clock_says(clock: list[int]) -> None:
    last = 0
    for now in clock:
        ticket = mint(last, now)
        assert ticket > last
        assert ticket >= now
        last = ticket


@given(micros, micros)
def test_a_lost_counter_is_survived_by_the_clock(last: int, later: int) -> None:
    before = mint(0, last)
    if later > before:
        assert mint(0, later) > before


def test_none_is_minted_that_a_double_cannot_hold() -> None:
    assert mint(LIMIT - 2, 0) == LIMIT - 1
    with pytest.raises(OverflowError, match="2\\*\\*53"):
        mint(LIMIT - 1, 0)
