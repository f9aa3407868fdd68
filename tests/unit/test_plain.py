"""Text from others does nothing but be read."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast import Deadlock, EngineRefused, EngineUnavailable, LockfastError, NotAcquired
from lockfast.claims.payload import Who
from lockfast.plain import plain

ANY = st.text(st.characters(codec=None))
SCREEN = "\x1b[2J\r\n\x9b1m\u202e\x07\u2028"


@given(ANY)
def test_whatever_it_is_it_can_be_printed_and_encoded_and_twice_is_once(text: str) -> None:
    said = plain(text)
    assert said.isprintable()
    assert said.encode().decode() == said
    assert plain(said) == said
    if text.isprintable():
        assert said == text


@given(ANY, ANY, ANY, ANY)
def test_a_holder_in_words_can_be_printed(host: str, worker: str, service: str, why: str) -> None:
    assert str(Who(host, 1, worker, service, why, 1.0, 1.0)).isprintable()


@pytest.mark.parametrize(
    "error",
    [
        NotAcquired(SCREEN, 1.0, SCREEN),
        EngineRefused(SCREEN),
        EngineUnavailable(SCREEN, sent=True),
        Deadlock(SCREEN),
    ],
)
def test_the_message_of_an_error_is_one_harmless_line(error: LockfastError) -> None:
    assert str(error).isprintable()
    assert "\\x1b[2J\\r\\n" in str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301  # our own
