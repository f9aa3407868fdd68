"""Every public function says what it takes, returns and raises, and every example runs."""

from __future__ import annotations

import builtins
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NoReturn, Self

import pytest

from lockfast import errors
from tests.docs.docstrings import ENTRY, Documented, public
from tests.docs.page import complaints
from tests.docs.preludes import placed, prelude

PUBLIC = public()
CALLED = {
    name: each
    for name, each in PUBLIC.items()
    if inspect.isroutine(each.thing) and not name.startswith("lockfast.port.")
}
ENTRY_POINTS: list[str] = []


@pytest.mark.parametrize("name", CALLED)
def test_a_docstring_describes_every_parameter_and_the_result(name: str) -> None:
    each = CALLED[name]
    described = ENTRY.findall(each.section("Args"))
    assert described == [parameter.name for parameter in each.parameters]
    result = inspect.signature(each.thing).return_annotation
    if result not in {"None", "NoReturn", "Self", None, NoReturn, Self}:
        assert each.section("Returns") or each.section("Yields")


@pytest.mark.parametrize("name", [name for name in PUBLIC if PUBLIC[name].section("Raises")])
def test_a_docstring_names_exceptions_that_exist(name: str) -> None:
    for raised in ENTRY.findall(PUBLIC[name].section("Raises")):
        kind = getattr(errors, raised, None) or getattr(builtins, raised, None)
        kind = kind or vars(inspect.getmodule(PUBLIC[name].thing)).get(raised)
        assert isinstance(kind, type), raised
        assert issubclass(kind, BaseException), raised
