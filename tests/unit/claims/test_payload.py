"""Who holds it."""

from __future__ import annotations

import json
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lockfast
from lockfast.claims import payload

NAMES = st.text(min_size=1, max_size=100)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=5
)
FIELDS = (*payload.Who._fields, "holding", "value")
POISONS = {
    "an infinite pid": b'{"host": "h", "pid": 1e999}',
    "a pid of 5,000 digits": b'{"host": "h", "pid": ' + b"9" * 5000 + b"}",
    "a pid of 100 digits": b'{"host": "h", "pid": ' + b"9" * 100 + b"}",
    "100,000 brackets": b"[" * 100_000,
    "brackets below the size that is read": b"[" * 60_000,
    "objects in objects": b'{"a":' * 12_000,
    "a host of lists": b'{"host": ' + b"[" * 900 + b"]" * 900 + b', "pid": 1}',
    "a ttl that is not a number": b'{"host": "h", "pid": 1, "ttl": NaN}',
    "a ttl just below nothing": b'{"host": "h", "pid": 1, "ttl": -1e-9}',
    "a ttl just above nothing": b'{"host": "h", "pid": 1, "ttl": 1e-320}',
    "an infinite ttl": b'{"host": "h", "pid": 1, "ttl": Infinity}',
    "since ever": b'{"host": "h", "pid": 1, "since": -Infinity}',
    "half a surrogate": rb'{"host": "\ud800", "pid": 1, "holding": {"'
    + b"a" * 32
    + rb'": "\ud800"}}',
    "3 MB": b'{"host": "' + b"h" * 3_000_000 + b'"}',
    "nothing": b"",
    "no text": b"\xff\xfe\x00",
}
"""What somebody who may use the engine can write into a claim."""


def bounded(raw: bytes) -> None:
    """Read a payload in every way; whatever it is, the answers are within their limits."""
    said = payload.read(raw)
    assert len(str(said)) < 1_000
    for text in (*said, payload.value(raw), *payload.holding(raw).values()):
        assert not isinstance(text, str) or len(text.encode()) <= 4 * 1024
    assert 0 <= said.pid <= 2**32
    assert math.isfinite(said.since)
    assert said.since >= 0
    assert 0 <= said.ttl <= 86_400
    assert all(len(id_) == 32 for id_ in payload.holding(raw))
    assert all(1 <= len(name.encode()) <= 512 for name in payload.holding(raw).values())
    assert len(payload.holding(raw)) <= 2_000


@given(st.text(max_size=200), st.text(max_size=200))
def test_what_is_written_can_be_read(worker: str, purpose: str) -> None:
    said = payload.read(payload.write(worker, purpose, 0.0))
    assert (said.pid, said.purpose) == (os.getpid(), purpose)
    assert said.worker == (worker[:128] or "?")
    assert str(os.getpid()) in str(said)


@given(
    st.one_of(
        st.binary(),
        VALUES.map(lambda value: json.dumps(value).encode()),
        st.dictionaries(st.sampled_from(FIELDS), VALUES | st.dictionaries(st.text(), VALUES)).map(
            lambda said: json.dumps(said).encode()
        ),
    )
)
def test_any_payload_gives_a_bounded_answer(raw: bytes) -> None:
    bounded(raw)


@pytest.mark.parametrize("poison", POISONS)
def test_a_poisoned_payload_gives_a_bounded_answer(poison: str) -> None:
    bounded(POISONS[poison])


@given(st.dictionaries(st.text("0123456789abcdef", min_size=32, max_size=32), NAMES), st.text())
def test_what_is_held_and_what_a_leader_publishes_can_be_read(
    holding: dict[str, str], value: str
) -> None:
    raw = payload.write("a worker", "why", 0.0, holding, value, 2.5)
    assert payload.holding(raw) == holding
    assert payload.value(raw) == value
    assert (payload.read(raw).purpose, payload.read(raw).ttl) == ("why", 2.5)


@given(st.binary())
def test_whatever_a_payload_is_nothing_is_held_by_it(raw: bytes) -> None:
    assert payload.holding(raw) == {}
    assert payload.value(raw) == ""


def test_whoever_holds_very_much_still_writes_what_can_be_read() -> None:
    many = {f"{number:032x}": "\N{GRINNING FACE}" * 120 + str(number) for number in range(1000)}
    raw = payload.write("w", "p" * 30_000_000, 0.0, many, "v" * 1024, 30.0)
    assert len(raw) <= payload.LARGEST
    assert payload.read(raw).pid == os.getpid()
    assert payload.value(raw) == "v" * 1024
    held = payload.holding(raw)
    assert 10 < len(held) < 1000
    assert held.items() <= many.items()


def test_a_long_purpose_is_cut_for_it_is_sent_to_all_who_wait() -> None:
    raw = payload.write("w", "A" * 30_000_000, 0.0)
    assert len(raw) < 2_000
    assert payload.read(raw).purpose == "A" * 256


def test_an_age_is_never_told_wrong_by_more_than_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    wall = 1_800_000_000.0
    for step in range(100):
        monkeypatch.setattr("time.time", lambda at=wall + step * 0.07: at)
        since = payload.read(payload.write("punctual", "why", 1000.0 + step * 0.07)).since
        assert abs(wall + step * 0.07 - since) <= 0.5001


@pytest.mark.parametrize("purpose", [5, b"bytes", None])
def test_a_purpose_that_is_no_text_is_named_in_the_error(purpose: object) -> None:
    with lockfast.connect("memory://") as client:
        lock = client.lock("x", purpose=purpose)  # type: ignore[call-overload]  # the mistake
        with pytest.raises(TypeError, match=f"purpose must be a str, not {type(purpose).__name__}"):
            lock.acquire(timeout=1)
