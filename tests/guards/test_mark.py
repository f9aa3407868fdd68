"""The rule of the mark, against every order in which holders may arrive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.errors import StaleToken
from lockfast.guards.mark import Mark, Shown, admit, refused, shown


def writer(token: int, id_: str = "w") -> Shown:
    return Shown("n", token, id_, token, shared=False)


def reader(token: int, floor: int) -> Shown:
    return Shown("n", token, f"r{token}", floor, shared=True)


def test_a_holder_writes_many_times() -> None:
    mark = admit(None, writer(7))
    assert admit(mark, writer(7)) == mark


def test_a_lower_token_is_refused_and_both_tokens_are_named() -> None:
    with pytest.raises(
        StaleToken, match="token 6 was rejected, because the guard has already seen token 7"
    ):
        admit(Mark(7, "w"), writer(6))


def test_an_equal_token_of_another_claim_is_refused() -> None:
    with pytest.raises(StaleToken):
        admit(Mark(7, "w"), writer(7, "other"))


def test_a_reader_raises_the_mark_to_its_floor_and_no_higher() -> None:
    mark = admit(Mark(3, "w"), reader(9, floor=5))
    assert mark == Mark(5, "")
    assert admit(mark, reader(5, floor=5)) == mark
    with pytest.raises(StaleToken):
        admit(mark, writer(3))


def test_a_writer_that_the_engine_forgot_may_be_above_a_readers_floor() -> None:
    """The limit that the page on guards names: the oldest reader came back with the old data."""
    mark = admit(None, reader(9, floor=3))
    assert admit(mark, writer(5)) == Mark(5, "w")


def test_a_reader_below_a_writer_that_came_later_is_refused() -> None:
    with pytest.raises(StaleToken):
        admit(Mark(10, "w"), reader(9, floor=5))


def test_what_was_shown_from_afar_is_shown_on_and_refused_like_a_lease() -> None:
    at = writer(6)
    assert shown(at) is at
    error = refused(at, 7)
    assert (error.name, error.token, error.current) == ("n", 6, 7)


@given(st.lists(st.tuples(st.integers(1, 6), st.sampled_from("ab"), st.integers(1, 6))))
def test_the_mark_never_falls_and_no_two_claims_write_under_one_token(
    arrivals: list[tuple[int, str, int]],
) -> None:
    mark: Mark | None = None
    for token, id_, floor in arrivals:
        at = writer(token, id_) if floor > token else reader(token, floor)
        before = mark
        try:
            mark = admit(mark, at)
        except StaleToken:
            assert before is not None
            assert at.token <= before.token
            continue
        if before is not None:
            assert mark.token >= before.token
            assert mark.token > before.token or mark.id == before.id
