"""Records of breaks: written small, read whatever anybody has written."""

from __future__ import annotations

import getpass
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.breaks import Break
from lockfast.claims import break_records
from lockfast.port import RECORD

ID = "0" * 32


@given(st.text(max_size=2000))
def test_every_reason_fits_and_is_read_back_as_far_as_it_goes(reason: str) -> None:
    raw = break_records.written(ID, 7, reason)
    assert len(raw) <= RECORD
    assert b"\n" not in raw
    read = break_records.read(raw)
    assert read is not None
    assert (read.id, read.ticket) == (ID, 7)
    assert read.reason == reason[:300].encode(errors="replace").decode()
    assert str(read).isprintable()


def test_a_reason_with_half_a_surrogate_pair_is_stored() -> None:
    read = break_records.read(break_records.written(ID, 7, "\ud800"))
    assert read is not None
    assert read.reason == "?"


def test_a_user_without_a_name_can_break_a_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr(getpass, "getuser", nameless)
    monkeypatch.delenv("SUDO_USER", raising=False)
    read = break_records.read(break_records.written(ID, 7, "why"))
    assert read is not None
    assert read.by.startswith("uid ")


@given(
    st.binary(max_size=100)
    | st.dictionaries(
        st.sampled_from(["id", "ticket", "by", "reason", "at"]),
        st.none() | st.text() | st.integers() | st.floats() | st.lists(st.integers()),
    ).map(lambda said: json.dumps(said).encode())
)
def test_whatever_is_stored_reading_it_never_raises(raw: bytes) -> None:
    read = break_records.read(raw)
    if read is not None:
        assert isinstance(read, Break)
        assert len(read.id) == 32
        assert 0 <= read.ticket < 2**53
        assert len(str(read)) < 10_000


def test_a_later_break_that_found_the_claim_gone_does_not_rewrite_the_first() -> None:
    first, second = break_records.written(ID, 7, "first"), break_records.written(ID, 7, "second")
    other = break_records.written("1" * 32, 8, "other")
    told = break_records.history([second, other, b"no record", first])
    assert [each.reason for each in told] == ["other", "first"]
