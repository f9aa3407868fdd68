"""The stored form of a claim: what we write we read, and nothing else is taken for ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.core import record
from lockfast.errors import EngineRefused
from lockfast.port import LONGEST, SHARED, SHORTEST, Kind, Shape

SIZES = st.one_of(
    st.just((Kind.LOCK, 1, 1)),
    st.sampled_from([(Kind.READ_WRITE, SHARED, 1), (Kind.READ_WRITE, SHARED, SHARED)]),
    st.integers(1, SHARED - 1).flatmap(
        lambda capacity: st.tuples(
            st.just(Kind.SEMAPHORE), st.just(capacity), st.integers(1, capacity)
        )
    ),
)


@given(SIZES, st.floats(SHORTEST, LONGEST), st.binary(max_size=20))
def test_what_is_written_is_read(sizes: tuple[Kind, int, int], ttl: float, payload: bytes) -> None:
    kind, capacity, weight = sizes
    shape = Shape("x", ttl, kind, capacity, weight)
    found = record.read(record.head(shape) + payload)
    assert found is not None
    assert found[:3] == sizes
    assert found.ttl == pytest.approx(ttl, abs=0.001)
    assert found.payload == payload


@given(st.binary(max_size=40))
def test_other_bytes_are_never_a_claim_that_cannot_be(stored: bytes) -> None:
    for each in (stored, b"v1 " + stored):
        found = record.read(each)
        assert found is None or 1 <= found.weight <= found.capacity


@pytest.mark.parametrize(
    "stored",
    [
        b"1 1 30000 payload",  # as it was stored before there was a format
        b"v2 1 1 1 30000 payload",
        b"v01 1 1 1 30000 payload",
        b"v1 0 1 1 30000 payload",
        b"v1 4 1 1 30000 payload",
        b"v1 1 2 1 30000 payload",  # a lock has capacity 1
        b"v1 2 5 1 30000 payload",
        b"v1 3 1 2 30000 payload",
        b"v1 3 5 0 30000 payload",
        b"v1 1 1 1 0 payload",
        b"v1 1 1 1 86400001 payload",
        b"v1 1 1 1 30000",
        b"",
    ],
)
def test_what_is_not_of_our_format_is_not_read(stored: bytes) -> None:
    assert record.read(stored) is None


def test_the_format_is_known_also_if_the_rest_is_not() -> None:
    assert record.format_of(b"v2 nobody knows") == 2
    assert record.format_of(b"1 1 30000 payload") == 0


def test_the_error_names_the_lock_and_both_formats() -> None:
    error = record.other_format("nightly", 7)
    assert isinstance(error, EngineRefused)
    assert "'nightly' is stored in format 7" in str(error)
    assert f"reads format {record.FORMAT}" in str(error)


@given(st.integers(0, 2**53), st.one_of(st.binary(max_size=20), st.from_regex(rb"~[0-9]* ?.*")))
def test_an_epoch_and_any_payload_are_read_as_they_were_written(epoch: int, payload: bytes) -> None:
    assert record.without_epoch(record.with_epoch(epoch, payload)) == (epoch, payload)


@given(st.binary(max_size=20))
def test_no_epoch_is_written_for_a_direct_client(payload: bytes) -> None:
    """An earlier version reads its claims. No payload of lockfast's begins with a tilde."""
    stored = record.with_epoch(0, payload)
    assert stored == payload or payload.startswith(b"~")
