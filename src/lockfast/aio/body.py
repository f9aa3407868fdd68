"""The `async with` statement of asyncio leases: a loss cancels its body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, NoReturn, ParamSpec, Self, TypeVar

from lockfast.errors import LockfastError

E = TypeVar("E", bound="Ending")
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


WATCHING = ("_cancelled", "_cancelling", "_task")
NONE: tuple[str, ...] = ()


class Ending:
    """The `async with` statement of `AsyncLease`, `AsyncRLease` and `AsyncMultiLease`."""

    __slots__ = NONE  # each kind of lease has the slots of WATCHING

    _task: asyncio.Task[Any] | None
    _cancelled: bool
    _cancelling: int

    def _release(self) -> Coroutine[Any, Any, None]:
        raise NotImplementedError

    async def release(self) -> None:
        """Release the lease, or every lease of a `MultiLease`. A second call has no effect.

        Raises:
            LeaseLost: The lease was lost before. It is raised once.
            EngineError: The engine has not confirmed the release. You can call it again, and
                lockfast keeps trying in the background.
        """
        raise NotImplementedError

    def ensure_held(self) -> None:
        """Raise `LeaseLost` unless the lease is held now."""
        raise NotImplementedError

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call `callback` when the lease is lost."""
        raise NotImplementedError

    async def __aenter__(self) -> Self:
        """Return the lease, or raise `LeaseLost`. From now on a loss cancels the body."""
        self.ensure_held()
        self._watch()
        return self

    def _watch(self) -> None:
        self._cancelled = False
        self._task = asyncio.current_task()
        self._cancelling = self._task.cancelling() if self._task else 0
        self.on_lost(self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._cancelled = True
            self._task.cancel("lockfast: the lease was lost")

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lease. If its loss has cancelled the body, raise `LeaseLost`.

        A cancellation by anybody else remains a `CancelledError`.
        """
        task, self._task = self._task, None
        ours = self._cancelled and task is not None and task.uncancel() <= self._cancelling
        try:
            await self._release()
        except LockfastError as failure:
            if error is None:
                raise
            if not ours:
                error.add_note(f"lockfast: the release failed too: {failure}")
        if ours and isinstance(error, asyncio.CancelledError):
            self._explain(error)

    def _explain(self, error: BaseException) -> NoReturn:
        raise NotImplementedError


class Pending(Coroutine[Any, Any, T]):
    """A coroutine that raises `TypeError` if it is tested for truth. Await it, or make it a task.

    A plain coroutine is true, so `if lock.try_acquire():` without `await` would run the body
    without the lock.
    """

    __slots__ = ("_coroutine",)

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        """Wrap a coroutine. It does not run before it is awaited."""
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, T]:
        """Run the coroutine and return its result."""
        return self._coroutine.__await__()

    def __bool__(self) -> NoReturn:
        """Raise `TypeError`, because `await` is missing."""
        self._coroutine.close()  # or Python would also warn that it was never awaited
        raise TypeError("nothing has run yet: write `await` in front of this call")

    def send(self, value: Any) -> Any:  # noqa: ANN401  # as of every coroutine
        """Resume the coroutine."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:  # noqa: ANN401  # as of every coroutine
        """Raise an exception inside the coroutine."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """Close the coroutine."""
        self._coroutine.close()


def pending(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Pending[T]]:
    """Wrap a coroutine method so that it returns a `Pending`, which cannot be tested for truth."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        return Pending(method(self, *args, **kwargs))

    return call


class Acquiring(Pending[E]):
    """What the asyncio `acquire()` returns. Await it for the lease, or use it in `async with`."""

    __slots__ = ("_lease",)

    async def __aenter__(self) -> E:
        """Acquire the lock and return the lease. From now on a loss cancels the body."""
        self._lease = await self._coroutine
        self._lease._watch()
        return self._lease

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lease."""
        await self._lease.__aexit__(kind, error, trace)


def acquiring(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, E]],
) -> Callable[Concatenate[S, P], Acquiring[E]]:
    """Wrap a coroutine method so that it returns an `Acquiring`."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **kwargs: P.kwargs) -> Acquiring[E]:
        return Acquiring(method(self, *args, **kwargs))

    return call
