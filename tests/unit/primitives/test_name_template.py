"""Names with places to fill: what a call makes of them, and what fails before any call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lockfast.primitives.name_template import Template


def pay(order: int, currency: str = "EUR", *, lease: Any = None) -> Any:  # noqa: ANN401
    del order, currency
    return lease


def name(text: str, *args: object, **kwargs: object) -> str:
    return Template(text, pay).name(args, kwargs)


def test_places_are_filled_from_positional_named_and_default_arguments() -> None:
    assert name("pay:{order}", 7) == "pay:7"
    assert name("pay:{order}:{currency}", order=7) == "pay:7:EUR"
    assert name("pay:{order:04d}:{currency!r}", 7, "CHF") == "pay:0007:'CHF'"


def test_attributes_and_items_of_arguments_fill_places_too() -> None:
    assert name("{order.id}/{currency[code]}", SimpleNamespace(id=3), {"code": "CHF"}) == "3/CHF"


def test_a_name_without_places_is_itself_and_doubled_braces_are_braces() -> None:
    assert name("nightly", 7) == "nightly"
    assert name("{{pay}}:{order}", 7) == "{pay}:7"


@pytest.mark.parametrize("text", ["{customer}", "{}", "{0}", "{order", "order}"])
def test_a_place_that_no_parameter_fills_fails_where_the_function_is_decorated(text: str) -> None:
    with pytest.raises(TypeError, match="pay"):
        Template(text, pay)


def test_a_call_that_lacks_an_argument_fails_as_the_function_would() -> None:
    with pytest.raises(TypeError, match="'order'"):
        name("pay:{order}")
    with pytest.raises(TypeError, match="unexpected"):
        name("pay:{order}", 7, mode="red")


def test_the_lease_goes_where_it_is_asked_for_and_was_not_given() -> None:
    def first(lease: object, order: int = 0) -> None: ...
    def last(*orders: int, lease: object = None) -> None: ...
    def without(order: int) -> None: ...

    def injected(function: Any, *args: object, **kwargs: object) -> dict[str, object]:  # noqa: ANN401
        Template("x", function).inject(args, kwargs, "the lease")
        return kwargs

    assert injected(first) == {"lease": "the lease"}
    assert injected(first, "mine") == {}
    assert injected(first, lease="mine") == {"lease": "mine"}
    assert injected(last, 1, 2, 3) == {"lease": "the lease"}
    assert injected(without, 1) == {}


def test_a_function_that_cannot_run_under_a_lock_is_refused() -> None:
    def some() -> Iterator[int]:
        yield 1

    async def more() -> AsyncIterator[int]:
        yield 1

    def only(lease: object, /) -> None: ...

    for function in (some, more):
        with pytest.raises(TypeError, match="generator"):
            Template("x", function)
    with pytest.raises(TypeError, match="positional"):
        Template("x", only)
