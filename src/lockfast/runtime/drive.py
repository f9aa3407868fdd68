"""Drive a coroutine to its end without an event loop: how shared code serves blocking callers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that awaits only things which block, and so never suspends."""
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
    """Make the blocking form of a shared method."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        coroutine = None
        try:  # as in `drive`, without the cost of calling it
            coroutine = method(self, *args, **kwargs)
            coroutine.send(None)
        except StopIteration as stop:
            return stop.value  # type: ignore[no-any-return]  # StopIteration is not generic
        except BaseException:
            if coroutine is not None:  # Ctrl-C before it began
                coroutine.close()
            raise
        return _suspended(coroutine)

    return call
