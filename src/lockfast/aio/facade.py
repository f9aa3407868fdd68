"""The asyncio locks and leases that an `AsyncClient` returns. They await the shared coroutines."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

from lockfast.aio.body import WATCHING, Acquiring, Ending, pending
from lockfast.claims.release import lost
from lockfast.core.validity import State
from lockfast.errors import NotAcquired
from lockfast.primitives.lease import LeaseCore
from lockfast.primitives.lock import Default, LockCore
from lockfast.primitives.multilock import MultiLeaseCore, MultiLockCore
from lockfast.primitives.name_template import Template
from lockfast.primitives.not_a_lock import OnlyDecorates
from lockfast.primitives.rlock import RLeaseCore, RLockCore
from lockfast.primitives.with_block import Leaving, beginning

P = ParamSpec("P")
T = TypeVar("T")


class AsyncLease(LeaseCore, Ending):
    """One acquisition of a lock. Await `release()`, or use the lease in `async with`.

    If the lease is lost in an `async with` block, lockfast cancels the body, and the block raises
    `LeaseLost`.

    Example:
        ::

            lease = await client.lock("report", ttl=10).acquire(timeout=5)
            async with lease:
                print("writing the report with token", lease.token)
    """

    __slots__ = WATCHING

    wait_lost = pending(LeaseCore._wait_lost)
    signed = pending(LeaseCore._signed)

    async def release(self) -> None:
        # Not `return self._release()`: this coroutine keeps the lease alive. Otherwise
        # `await (await lock.acquire()).release()` would drop the lease before its release begins,
        # and warn of that.
        await self._release()

    def _explain(self, error: BaseException) -> NoReturn:
        raise lost(self.claim) from error


class AsyncLock(LockCore[AsyncLease]):
    """A lock for asyncio. `async with lock as lease:` acquires it, and releases it at the end.

    It is an immutable description, which tasks can share. Each acquisition is a new lease.
    """

    __slots__ = ()

    try_acquire = pending(LockCore[AsyncLease]._try_acquire)
    holders = pending(LockCore[AsyncLease]._holders)
    queue = pending(LockCore[AsyncLease]._queue)

    def acquire(
        self, *, timeout: float | Default | None = Default.OF_LOCK
    ) -> Acquiring[AsyncLease]:
        return Acquiring(self._acquire(timeout=timeout))

    async def __aenter__(self) -> AsyncLease:
        """Acquire the lock and return the lease. From now on a loss cancels the body."""
        block = beginning()
        lease = block.lease = await self._acquire_in(block)
        lease._watch()
        return lease

    __aexit__ = Leaving(AsyncLease.__aexit__)

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]]
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        """Decorate a coroutine function, so that every call holds the lock.

        Args:
            function: A coroutine function. Placeholders in the lock's name are filled from the
                arguments of each call. A parameter named `lease` receives the lease.

        Returns:
            A coroutine function with the same parameters. It raises what `acquire` and `release`
            raise.

        Raises:
            TypeError: It is a plain function, a generator or a class, or a placeholder has no
                parameter.

        Example:
            ::

                @client.lock("invoice:{number}", ttl=10)
                async def pay(number, lease=lockfast.INJECTED):
                    print("paying invoice", number, "with token", lease.token)

                await pay(42)
        """
        template = Template(self.name, _coroutine(function))

        @wraps(function)
        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            async with self._renamed(template.name(args, kwargs)) as lease:
                template.inject(args, kwargs, lease)
                return await function(*args, **kwargs)

        return run


class AsyncSkip(OnlyDecorates):
    """The decorator that `AsyncClient.lock(..., on_busy="skip")` returns."""

    def __init__(self, lock: AsyncLock) -> None:
        """Take the lock."""
        self._lock = lock

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]]
    ) -> Callable[P, Coroutine[Any, Any, T | None]]:
        """Decorate a coroutine function. If the lock is busy, a call returns None without it.

        Args:
            function: A coroutine function, as for `AsyncLock`.

        Returns:
            A coroutine function with the same parameters.

        Raises:
            TypeError: The function cannot be decorated, as for `AsyncLock`.
        """
        template = Template(self._lock.name, _coroutine(function))

        @wraps(function)
        async def run(*args: P.args, **kwargs: P.kwargs) -> T | None:
            inside = False
            try:
                async with self._lock._renamed(template.name(args, kwargs)) as lease:
                    inside = True
                    template.inject(args, kwargs, lease)
                    return await function(*args, **kwargs)
            except NotAcquired:
                if inside:
                    raise  # the function itself has failed to acquire another lock
                return None

        return run


def _coroutine(
    function: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    if not iscoroutinefunction(function):
        raise TypeError(
            "a lock of lockfast.aio.connect() cannot decorate a plain function: "
            "use a client of lockfast.connect()"
        )
    return function


class AsyncMultiLease(MultiLeaseCore[AsyncLease], Ending):
    """The leases of several locks that were acquired together, and are released together."""

    __slots__ = WATCHING

    wait_lost = pending(MultiLeaseCore[AsyncLease]._wait_lost)

    async def release(self) -> None:
        await self._release()  # not `return`: see AsyncLease.release

    def _explain(self, error: BaseException) -> NoReturn:
        for lease in self.leases.values():
            if lease.state is State.LOST:
                raise lost(lease.claim) from error
        raise error


class AsyncMultiLock(MultiLockCore[AsyncLease, AsyncMultiLease]):
    """Several locks that are acquired together, all or nothing, for asyncio."""

    __slots__ = ()

    try_acquire = pending(MultiLockCore[AsyncLease, AsyncMultiLease]._try_acquire)

    def acquire(
        self, *, timeout: float | Default | None = Default.OF_LOCK
    ) -> Acquiring[AsyncMultiLease]:
        return Acquiring(self._acquire(timeout=timeout))

    async def __aenter__(self) -> AsyncMultiLease:
        """Acquire all locks and return their leases. From now on a loss cancels the body."""
        block = beginning()
        leases = block.lease = await self._acquire(block=block)
        leases._watch()
        return leases

    __aexit__ = Leaving(AsyncMultiLease.__aexit__)


class AsyncRLease(RLeaseCore, Ending):
    """One acquisition of a re-entrant lock. Releasing the last one of a task frees the lock."""

    __slots__ = WATCHING

    release = RLeaseCore._release
    wait_lost = pending(LeaseCore._wait_lost)
    signed = pending(LeaseCore._signed)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release this frame, and remove its callback: outer frames may still hold the lock, and
        its loss must not cancel a body that has ended.
        """
        try:
            await super().__aexit__(kind, error, trace)
        finally:
            self._session.table.off_lost(self.claim, self._cancel)

    def _explain(self, error: BaseException) -> NoReturn:
        raise lost(self.claim) from error


class AsyncRLock(RLockCore[AsyncRLease]):
    """A re-entrant lock for asyncio: the task that holds it can acquire it again."""

    __slots__ = ()

    try_acquire = pending(RLockCore[AsyncRLease]._try_acquire)
    holders = pending(LockCore[AsyncRLease]._holders)
    queue = pending(LockCore[AsyncRLease]._queue)

    def acquire(
        self, *, timeout: float | Default | None = Default.OF_LOCK
    ) -> Acquiring[AsyncRLease]:
        return Acquiring(self._acquire(timeout=timeout))

    async def __aenter__(self) -> AsyncRLease:
        """Acquire the lock and return a lease. From now on a loss cancels the body."""
        block = beginning()
        lease = block.lease = await self._acquire(block=block)
        lease._watch()
        return lease

    __aexit__ = Leaving(AsyncRLease.__aexit__)
