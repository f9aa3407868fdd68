"""Who holds it."""

from __future__ import annotations

import json
import os

from hypothesis import given
from hypothesis import strategies as st

from lockfast import who


@given(st.text(max_size=200), st.text(max_size=200))
def test_what_is_written_can_be_read(worker: str, purpose: str) -> None:
    said = who.read(who.payload(worker, purpose, 0.0))
    assert (said.pid, said.purpose) == (os.getpid(), purpose)
    assert said.worker == (worker[:128] or "?")
    assert str(os.getpid()) in str(said)


@given(
    st.one_of(
        st.binary(),
        st.recursive(st.none() | st.integers() | st.text(), st.lists).map(
            lambda value: json.dumps(value).encode()
        ),
    )
)
def test_any_payload_gives_an_answer(raw: bytes) -> None:
    assert str(who.read(raw))


@given(st.dictionaries(st.text("0123456789abcdef", min_size=32, max_size=32), st.text()), st.text())
def test_what_is_held_and_what_a_leader_publishes_can_be_read(
    holding: dict[str, str], value: str
) -> None:
    raw = who.payload("a worker", "why", 0.0, holding, value, 2.5)
    assert who.holding(raw) == holding
    assert who.value(raw) == value
    assert (who.read(raw).purpose, who.read(raw).ttl) == ("why", 2.5)


@given(st.binary())
def test_whatever_a_payload_is_nothing_is_held_by_it(raw: bytes) -> None:
    assert who.holding(raw) == {}
    assert who.value(raw) == ""
