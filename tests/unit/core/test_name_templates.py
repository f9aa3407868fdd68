"""From a name back to its template: as a regular expression would find it, and in no time."""

from __future__ import annotations

import re
import time
from string import Formatter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.name_templates import OTHER, Templates

PARTS = st.lists(st.sampled_from(["a", "b", ":", "ab", "{x}", "{{", "}}", "\n"]), max_size=8)


def pattern(text: str) -> re.Pattern[str]:
    """Say what a template means, in the obvious way."""
    parts = []
    for literal, field, *_ in Formatter().parse(text):
        parts.append(re.escape(literal))
        if field is not None:
            parts.append(".+")
    return re.compile("".join(parts), re.DOTALL)


@given(PARTS.map("".join), st.text("ab:{}\n", max_size=12))
def test_a_name_fits_as_by_a_regular_expression(text: str, name: str) -> None:
    fits = pattern(text).fullmatch(name) is not None
    assert Templates([text]).of(name) == (text if fits else OTHER)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("{a}:{b}!", ":" * 510),
        ("{a}:{b}:{c}:{d}!", ":" * 510),
        ("doc:{tenant}/{folder}/{file}/{part}:lock", "doc:" + "/" * 500),
        ("{a}{b}{c}{d}{e}{f}x", "y" * 510),
        ("{a}ab{b}ab{c}ab{d}!", "a" * 255 + "b" * 255),
    ],
)
def test_no_name_takes_long(text: str, name: str) -> None:
    began = time.perf_counter()
    assert Templates([text]).of(name) == OTHER
    assert time.perf_counter() - began < 0.5


def test_the_first_template_that_fits_counts() -> None:
    found = Templates(["invoice:{number}", "{kind}:{number}", "report"])
    assert found.of("invoice:42") == "invoice:{number}"
    assert found.of("order:42") == "{kind}:{number}"
    assert found.of("report") == "report"
    assert found.of("reports") == OTHER
    assert found.of("invoice:") == OTHER
