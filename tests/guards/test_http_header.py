"""The header: what is shown arrives, and nothing else is taken for it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast import StaleToken
from lockfast.guards.http import header, parse, problem
from lockfast.guards.http.problem import told
from tests.guards.holders import readers, writer

A = "a" * 32


@given(
    st.integers(1, 2**53 - 1),
    st.text(min_size=1, max_size=60),
    st.booleans(),
)
def test_what_is_shown_arrives_as_it_was(token: int, name: str, shared: bool) -> None:  # noqa: FBT001  # drawn
    at = readers(token, max(token // 2, 1), name=name) if shared else writer(token, name=name)
    line = header(at)
    assert line.isascii()
    assert line.isprintable()
    assert parse(line) == at


def test_a_header_looks_like_this() -> None:
    assert header(writer(1763160000123456, A, "invoice:42")) == (
        f'"1763160000123456";id="{A}";name="invoice%3A42"'
    )


@pytest.mark.parametrize(
    "line",
    [
        "",
        "7",
        f'7;id="{A}";name="x"',
        f'"0";id="{A}";name="x"',
        f'"07";id="{A}";name="x"',
        f'"1e15";id="{A}";name="x"',
        f'"-7";id="{A}";name="x"',
        f'"{10**19}";id="{A}";name="x"',
        '"7";name="x"',
        '"7";id="A";name="x"',
        f'"7";id="{A}"',
        f'"7";id="{A}";name=""',
        f'"7";id="{A}";name="%ff"',
        f'"7";id="{A}";name="x";floor="8"',
        f'"7";id="{A}";name="x";floor="-1"',
        f'"7";id="{A}";name="x";floor="0"',
        f'"{2**53}";id="{A}";name="x"',
        f'"9999999999999999999";id="{A}";name="x"',
        f'"7";id="{A}";id="{A}";name="x"',
        f'"7";id="{A}";name="x";name="y"',
        f'"7";id="{A}";name="x", "8";id="{A}";name="x"',
    ],
)
def test_a_header_that_is_not_right_is_no_token(line: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # each says something else
        parse(line)


def test_an_answer_repeats_little_of_a_long_wrong_header() -> None:
    with pytest.raises(ValueError, match="in quotes") as wrong:
        parse("x" * 60_000)
    assert len(str(wrong.value)) < 300


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"type": "urn:lockfast:stale-token", "current": 1e999}',
        b'{"type": "urn:lockfast:stale-token", "current": {"a": 1}}',
        b'{"type": "urn:lockfast:stale-token"}',
        b"\xff",
        b"7",
    ],
)
def test_whatever_a_server_answers_the_client_reads_a_refusal_or_nothing(body: bytes) -> None:
    told(writer(7), 412, "application/problem+json", body)


def test_a_framework_that_swallows_errors_can_make_the_response_itself() -> None:
    response = problem(StaleToken("x", 6, 7))
    assert response.status == 412
    assert b'"current": "7"' in response.body
