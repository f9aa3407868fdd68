"""The script that compares tokens in Redis, against the rule of the mark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lockfast import StaleToken
from lockfast.guards.mark import Mark, Shown, admit
from lockfast.guards.redis import RedisGuard
from tests.guards.holders import readers, writer
from tests.servers import Redis

MARK = "lockfast:mark:{x}x"
A, B = "a" * 32, "b" * 32


@pytest.fixture(scope="module")
def client() -> Iterator[redis.Redis]:
    with Redis() as server, redis.Redis.from_url(server.url) as client:
        yield client


EDGES = [
    *(10**n + d for n in range(1, 19) for d in (-1, 0, 1)),
    *(2**n + d for n in (31, 32, 52, 53, 54, 62, 63) for d in (-1, 0, 1)),
    1763160000123456,
    1763160000123457,
]
TOKENS = st.one_of(st.sampled_from(EDGES), st.integers(1, 12), st.integers(1, 2**63))


@st.composite
def arrivals(draw: st.DrawFn) -> Shown:
    """Draw what somebody shows: tokens near each other, few ids, readers and writers."""
    token, other = draw(TOKENS), draw(TOKENS)
    ident = draw(st.sampled_from([A, B]))
    if draw(st.booleans()):
        return writer(token, ident)
    return readers(max(token, other), min(token, other), ident)


@settings(max_examples=250, deadline=None)
@given(st.lists(arrivals(), min_size=2, max_size=6))
@example([writer(2**53, A), writer(2**53 + 1, B), writer(2**53, A)])
@example([writer(1763160000123456, A), writer(1763160000123457, B), writer(1763160000123456, A)])
@example([writer(99, A), writer(100, B), writer(99, A)])
def test_the_script_admits_exactly_what_the_rule_admits(
    client: redis.Redis, seen: list[Shown]
) -> None:
    client.delete(MARK)
    guard = RedisGuard(client)
    mark: Mark | None = None
    for at in seen:
        said = ""
        try:
            mark = admit(mark, at)
        except StaleToken as refusal:
            said = str(refusal)
        try:
            guard.seal(at)
        except StaleToken as refusal:
            assert said == str(refusal)  # noqa: PT017  # whether it is raised is the question
        else:
            assert not said
        assert mark is not None
        assert client.get(MARK) == f"{mark.token} {mark.id}".encode()
