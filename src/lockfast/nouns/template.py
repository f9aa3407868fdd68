"""A name with places to fill: what a decorated function's arguments make of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

INJECTED: Final[Any] = None
"""The default of a parameter named `lease`: the decorator puts the lease there."""


class Template:
    """`pay:{order_id}`, for one function."""

    def __init__(self, text: str, function: Callable[..., object]) -> None:
        """Fail at once, where the function is decorated, if a place cannot be filled."""
        self._text = text
        self._signature = inspect.signature(function)
        self.injects = "lease" in self._signature.parameters
        """Whether the function asks for the lease."""
        self._fill(dict.fromkeys(self._signature.parameters, _Anything()), function)

    def _fill(self, arguments: dict[str, Any], function: Callable[..., object]) -> None:
        try:
            self._text.format_map(arguments)
        except (KeyError, IndexError, ValueError) as error:
            raise TypeError(
                f"the name {self._text!r} has a place that {function.__qualname__} has no "
                f"parameter for: {error}. Write {{{{ and }}}} for braces."
            ) from error

    def name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Give the name for a call."""
        if "{" not in self._text and "}" not in self._text:
            return self._text
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return self._text.format_map(bound.arguments)


class _Anything:
    """Stands for any argument while a template is tried out."""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, key: object) -> _Anything:
        return self

    def __format__(self, spec: str) -> str:
        return "?"
