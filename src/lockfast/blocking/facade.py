"""The blocking locks and leases that a `Client` returns. They run the shared coroutines."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from lockfast.claims.release import give_up
from lockfast.errors import LockfastError, NotAcquired
from lockfast.primitives.lease import LeaseCore
from lockfast.primitives.lock import Default, LockCore
from lockfast.primitives.multilock import MultiLeaseCore, MultiLockCore
from lockfast.primitives.name_template import Template
from lockfast.primitives.not_a_lock import OnlyDecorates
from lockfast.primitives.rlock import RLeaseCore, RLockCore
from lockfast.primitives.with_block import Leaving, beginning
from lockfast.runtime.drive import blocking, drive

P = ParamSpec("P")
T = TypeVar("T")


class Ending:
    """The `release` and the `with` statement of `Lease`, `RLease` and `MultiLease`."""

    __slots__ = ()

    def _release(self) -> Coroutine[Any, Any, None]:
        raise NotImplementedError

    def _abandon(self) -> None:
        raise NotImplementedError

    def ensure_held(self) -> None:
        """Raise `LeaseLost` unless the lease is held now."""
        raise NotImplementedError

    def release(self) -> None:
        """Release the lease, or every lease of a `MultiLease`. A second call has no effect.

        Raises:
            LeaseLost: The lease was lost before. It is raised once.
            EngineError: The engine has not confirmed the release. You can call it again, and
                lockfast keeps trying in the background.
        """
        coroutine = None
        try:
            coroutine = self._release()
            coroutine.send(None)
        except StopIteration:
            return
        except LockfastError:
            raise
        except BaseException:  # Ctrl-C, perhaps before the release began: release all the same
            if coroutine is not None:
                coroutine.close()
            self._abandon()
            raise

    def __enter__(self) -> Self:
        """Return the lease. Raise `LeaseLost` if it is already lost (trap 6)."""
        self.ensure_held()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release the lease. An error of the release never hides that of the body (trap 7)."""
        try:
            self.release()
        except LockfastError as failure:
            if error is None:
                raise
            error.add_note(f"lockfast: the release failed too: {failure}")


class Lease(LeaseCore, Ending):
    """One acquisition of a lock. Call `release()`, or use the lease in a `with` statement.

    lockfast renews it in the background until it is released or lost.

    Example:
        ::

            with client.lock("report", ttl=10) as lease:
                for page in range(3):
                    lease.ensure_held()  # raises LeaseLost if another process may hold the lock
                    print("writing page", page, "with token", lease.token)
    """

    __slots__ = ()

    wait_lost = blocking(LeaseCore._wait_lost)
    signed = blocking(LeaseCore._signed)

    def _abandon(self) -> None:
        give_up(self._session, self.claim)


class Lock(LockCore[Lease]):
    """A lock for threads. `with lock as lease:` acquires it, and releases it at the end.

    It is an immutable description, which threads can share. Each acquisition is a new lease.
    """

    __slots__ = ()

    try_acquire = blocking(LockCore[Lease]._try_acquire)
    holders = blocking(LockCore[Lease]._holders)
    queue = blocking(LockCore[Lease]._queue)

    def acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> Lease:
        return drive(self._acquire(timeout=timeout))

    def __enter__(self) -> Lease:
        """Acquire the lock and return the lease."""
        block = beginning()
        lease = block.lease = drive(self._acquire_in(block))
        return lease

    __exit__ = Leaving(Lease.__exit__)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Decorate a function, so that every call holds the lock.

        Args:
            function: A plain function. Placeholders in the lock's name are filled from the
                arguments of each call. A parameter named `lease` receives the lease.

        Returns:
            A function with the same parameters. It raises what `acquire` and `release` raise.

        Raises:
            TypeError: It is a coroutine function, a generator or a class, or a placeholder has no
                parameter.

        Example:
            ::

                @client.lock("invoice:{number}", ttl=10)
                def pay(number, lease=lockfast.INJECTED):
                    print("paying invoice", number, "with token", lease.token)

                pay(42)
        """
        template = Template(self.name, _plain(function))

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            with self._renamed(template.name(args, kwargs)) as lease:
                template.inject(args, kwargs, lease)
                return function(*args, **kwargs)

        return run


class Skip(OnlyDecorates):
    """The decorator that `Client.lock(..., on_busy="skip")` returns."""

    def __init__(self, lock: Lock) -> None:
        """Take the lock."""
        self._lock = lock

    def __call__(self, function: Callable[P, T]) -> Callable[P, T | None]:
        """Decorate a function. If the lock is busy, a call returns None without running it.

        Args:
            function: A plain function, as for `Lock`.

        Returns:
            A function with the same parameters.

        Raises:
            TypeError: The function cannot be decorated, as for `Lock`.
        """
        template = Template(self._lock.name, _plain(function))

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T | None:
            inside = False
            try:
                with self._lock._renamed(template.name(args, kwargs)) as lease:
                    inside = True
                    template.inject(args, kwargs, lease)
                    return function(*args, **kwargs)
            except NotAcquired:
                if inside:
                    raise  # the function itself has failed to acquire another lock
                return None

        return run


def _plain(function: Callable[P, T]) -> Callable[P, T]:
    if iscoroutinefunction(function):
        raise TypeError(
            "a lock of lockfast.connect() cannot decorate a coroutine function: "
            "use a client of lockfast.aio.connect()"
        )
    return function


class MultiLease(MultiLeaseCore[Lease], Ending):
    """The leases of several locks that were acquired together, and are released together."""

    __slots__ = ()

    wait_lost = blocking(MultiLeaseCore[Lease]._wait_lost)

    def _abandon(self) -> None:
        for lease in self.leases.values():
            give_up(self._session, lease.claim)


class MultiLock(MultiLockCore[Lease, MultiLease]):
    """Several locks that are acquired together, all or nothing, for threads."""

    __slots__ = ()

    try_acquire = blocking(MultiLockCore[Lease, MultiLease]._try_acquire)

    def acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> MultiLease:
        return drive(self._acquire(timeout=timeout))

    def __enter__(self) -> MultiLease:
        """Acquire all locks and return their leases."""
        block = beginning()
        leases = block.lease = drive(self._acquire(block=block))
        return leases

    __exit__ = Leaving(MultiLease.__exit__)


class RLease(RLeaseCore, Ending):
    """One acquisition of a re-entrant lock. Releasing the last one of a thread frees the lock."""

    __slots__ = ()

    wait_lost = blocking(LeaseCore._wait_lost)
    signed = blocking(LeaseCore._signed)


class RLock(RLockCore[RLease]):
    """A re-entrant lock for threads: the thread that holds it can acquire it again."""

    __slots__ = ()

    try_acquire = blocking(RLockCore[RLease]._try_acquire)
    holders = blocking(LockCore[RLease]._holders)
    queue = blocking(LockCore[RLease]._queue)

    def acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> RLease:
        return drive(self._acquire(timeout=timeout))

    def __enter__(self) -> RLease:
        """Acquire the lock and return a lease."""
        block = beginning()
        lease = block.lease = drive(self._acquire(block=block))
        return lease

    __exit__ = Leaving(RLease.__exit__)
