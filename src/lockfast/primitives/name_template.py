"""Name templates of decorated functions, such as `pay:{order_id}`, filled from the arguments."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, Final

INJECTED: Final[Any] = None
"""The default value for a parameter named `lease`. The decorator passes the lease there."""


class Template:
    """The name template of one decorated function."""

    def __init__(self, text: str, function: Callable[..., object]) -> None:
        """Raise `TypeError`, at decoration time, if a placeholder has no parameter to fill it."""
        if inspect.isclass(function):
            raise TypeError(
                f"{function.__qualname__} is a class: decorate the methods that need the lock"
            )
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"{function.__qualname__} is a generator: its body would run after the lock was "
                "released. Acquire the lock inside it."
            )
        self._text = text
        self._plain = "{" not in text and "}" not in text
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters
        self._place = -1
        """The position of the `lease` parameter. A call with more positional arguments passes it
        itself. -1: the function has no such parameter."""
        if "lease" in parameters:
            kind = parameters["lease"].kind
            if kind is kind.POSITIONAL_ONLY:
                raise TypeError(
                    f"`lease` of {function.__qualname__} is positional only, but lockfast passes "
                    "it by keyword"
                )
            named = kind is kind.KEYWORD_ONLY
            self._place = sys.maxsize if named else list(parameters).index("lease")
        self._try_out(dict.fromkeys(parameters, _Anything()), function)

    def _try_out(self, arguments: dict[str, Any], function: Callable[..., object]) -> None:
        try:
            self._text.format_map(arguments)
        except ValueError as error:
            raise TypeError(
                f"the name {self._text!r} for {function.__qualname__} cannot be filled: {error}. "
                "Write {{ and }} for braces."
            ) from error
        except (KeyError, IndexError) as error:
            raise TypeError(
                f"the name {self._text!r} has a placeholder for which {function.__qualname__} has "
                f"no parameter: {error}. Write {{{{ and }}}} for braces."
            ) from error

    def name(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return the lock's name for a call with these arguments."""
        if self._plain:
            return self._text
        bound = self._signature.bind_partial(*args, **kwargs)
        bound.apply_defaults()
        return self._text.format_map(_Given(bound.arguments))

    def inject(self, args: tuple[Any, ...], kwargs: dict[str, Any], lease: object) -> None:
        """Add the lease to the arguments, if the function has a parameter for it and the caller
        has passed none.
        """
        if self._place >= len(args):
            kwargs.setdefault("lease", lease)


class _Given(dict[str, Any]):
    """The arguments of a call. A missing one raises `TypeError`, as the function itself would."""

    def __missing__(self, key: str) -> object:
        raise TypeError(f"missing a required argument: {key!r}")


class _Anything:
    """A stand-in for any argument, to test a template at decoration time."""

    def __getattr__(self, name: str) -> _Anything:
        return self

    def __getitem__(self, key: object) -> _Anything:
        return self

    def __format__(self, spec: str) -> str:
        return "?"
