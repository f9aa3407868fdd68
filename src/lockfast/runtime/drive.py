"""Runs shared coroutines for blocking callers, without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end and return its result. It must block, and never suspend."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        # Nothing is called between here and the caller's assignment, so that Ctrl-C cannot fall
        # between a grant and the variable that holds its lease.
        return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
    return _suspended(coroutine)


def _suspended(coroutine: Coroutine[Any, Any, T]) -> T:
    coroutine.close()
    raise RuntimeError(
        "shared code awaited something that suspends: a blocking transport must block"
    )


def blocking(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], T]:
    """Return the blocking form of a coroutine method: it runs the coroutine as `drive` does."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        coroutine = None
        try:  # as in `drive`, but without the cost of a call
            coroutine = method(self, *args, **kwargs)
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
        except BaseException:
            if coroutine is not None:  # Ctrl-C may have come before `send` began it
                coroutine.close()
            raise
        return _suspended(coroutine)

    return call
