"""The asyncio locks and leases: what an `AsyncClient` gives. Each is the shared one, awaited."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, Self, TypeVar

from lockfast.aio.body import WATCHING, Acquiring, Ending, pending
from lockfast.claims.release import lost
from lockfast.core.validity import State
from lockfast.errors import NotAcquired
from lockfast.primitives.candidacy import CandidacyCore
from lockfast.primitives.election import ElectionCore, Observer
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
    """One acquisition. Leaving `async with` releases it; a loss cancels the body."""

    __slots__ = WATCHING

    wait_lost = pending(LeaseCore._wait_lost)

    async def release(self) -> None:
        """Release the lease. Twice is fine; after a loss it raises `LeaseLost`, once.

        After an engine's error it can be called again.
        """
        # A coroutine of its own, which keeps the lease: `await (await lock.acquire()).release()`
        # would else drop the lease, and warn of that, before its release has begun.
        await self._release()

    def _explain(self, error: BaseException) -> NoReturn:
        raise lost(self.claim) from error


class AsyncLock(LockCore[AsyncLease]):
    """A lock for tasks. `async with lock:` acquires it, and releases it at the end."""

    __slots__ = ()

    try_acquire = pending(LockCore[AsyncLease]._try_acquire)
    holders = pending(LockCore[AsyncLease]._holders)
    queue = pending(LockCore[AsyncLease]._queue)

    def acquire(
        self, *, timeout: float | Default | None = Default.OF_LOCK
    ) -> Acquiring[AsyncLease]:
        """Wait for the grant, `timeout` seconds at most (None: for ever), and return the lease.

        Raises `NotAcquired` when the time is over.
        """
        return Acquiring(self._acquire(timeout=timeout))

    async def __aenter__(self) -> AsyncLease:
        """Acquire."""
        block = beginning()
        lease = block.lease = await self._acquire_in(block)
        lease._watch()
        return lease

    __aexit__ = Leaving(AsyncLease.__aexit__)

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]]
    ) -> Callable[P, Coroutine[Any, Any, T]]:
        """Decorate: every call runs under the lock, whose name is filled from the arguments."""
        template = Template(self.name, _coroutine(function))

        @wraps(function)
        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            async with self._renamed(template.name(args, kwargs)) as lease:
                template.inject(args, kwargs, lease)
                return await function(*args, **kwargs)

        return run


class AsyncSkip(OnlyDecorates):
    """A lock that only decorates: a call that finds it busy does nothing and returns None."""

    def __init__(self, lock: AsyncLock) -> None:
        """Take the lock."""
        self._lock = lock

    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, T]]
    ) -> Callable[P, Coroutine[Any, Any, T | None]]:
        """Decorate."""
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
                    raise  # of a lock that the function itself did not get
                return None

        return run


def _coroutine(
    function: Callable[P, Coroutine[Any, Any, T]],
) -> Callable[P, Coroutine[Any, Any, T]]:
    if not iscoroutinefunction(function):
        raise TypeError("a plain function needs the lock of a client of lockfast.connect()")
    return function


class AsyncMultiLease(MultiLeaseCore[AsyncLease], Ending):
    """Leases of several resources. Leaving `async with` releases all of them."""

    __slots__ = WATCHING

    wait_lost = pending(MultiLeaseCore[AsyncLease]._wait_lost)

    async def release(self) -> None:
        """Release all. Twice is fine; after a loss it raises `LeaseLost`, once.

        After an engine's error it can be called again.
        """
        await self._release()  # see AsyncLease

    def _explain(self, error: BaseException) -> NoReturn:
        for lease in self.leases.values():
            if lease.state is State.LOST:
                raise lost(lease.claim) from error
        raise error


class AsyncMultiLock(MultiLockCore[AsyncLease, AsyncMultiLease]):
    """Several locks as one, for tasks."""

    __slots__ = ()

    try_acquire = pending(MultiLockCore[AsyncLease, AsyncMultiLease]._try_acquire)

    def acquire(
        self, *, timeout: float | Default | None = Default.OF_LOCK
    ) -> Acquiring[AsyncMultiLease]:
        """Wait until all are granted, and return them; as `AsyncLock.acquire`."""
        return Acquiring(self._acquire(timeout=timeout))

    async def __aenter__(self) -> AsyncMultiLease:
        """Acquire."""
        block = beginning()
        leases = block.lease = await self._acquire(block=block)
        leases._watch()
        return leases

    __aexit__ = Leaving(AsyncMultiLease.__aexit__)


class AsyncRLease(RLeaseCore, Ending):
    """One frame's part in a re-entrant lease."""

    __slots__ = WATCHING

    release = RLeaseCore._release
    wait_lost = pending(LeaseCore._wait_lost)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the frame, and with it what its loss would have done: the lease may go on."""
        try:
            await super().__aexit__(kind, error, trace)
        finally:
            self._session.table.off_lost(self.claim, self._cancel)

    def _explain(self, error: BaseException) -> NoReturn:
        raise lost(self.claim) from error


class AsyncRLock(RLockCore[AsyncRLease]):
    """A re-entrant lock for tasks."""

    __slots__ = ()

    try_acquire = pending(RLockCore[AsyncRLease]._try_acquire)
    holders = pending(LockCore[AsyncRLease]._holders)
    queue = pending(LockCore[AsyncRLease]._queue)

    def acquire(
        self, *, timeout: float | Default | None = Default.OF_LOCK
    ) -> Acquiring[AsyncRLease]:
        """Wait for the grant, unless this task has it; as `AsyncLock.acquire`."""
        return Acquiring(self._acquire(timeout=timeout))

    async def __aenter__(self) -> AsyncRLease:
        """Acquire."""
        block = beginning()
        lease = block.lease = await self._acquire(block=block)
        lease._watch()
        return lease

    __aexit__ = Leaving(AsyncRLease.__aexit__)


class AsyncCandidacy(CandidacyCore[AsyncLease]):
    """A candidate in a task of its own. Leaving `async with` withdraws it."""

    withdraw = CandidacyCore[AsyncLease]._withdraw

    async def __aenter__(self) -> Self:
        """Begin to campaign."""
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Withdraw, and resign."""
        await self.withdraw()


class AsyncObserver(Observer):
    """The leaders, for `async for`."""

    def __aiter__(self) -> Self:
        """Iterate."""
        return self

    __anext__ = Observer.following


class AsyncElection(ElectionCore[AsyncLease]):
    """An election, for tasks."""

    __slots__ = ()

    leader = ElectionCore[AsyncLease]._leader

    def campaign(self, value: str = "", *, timeout: float | None = None) -> Acquiring[AsyncLease]:
        """Wait to become the leader; as `Election.campaign`."""
        return Acquiring(self._campaign(value, timeout=timeout))

    def observe(self, every: float = 1.0) -> AsyncObserver:
        """Iterate over the leaders, from the present one on; looked for every so many seconds."""
        return AsyncObserver(self, self._session, every)

    def run(
        self,
        on_gain: Callable[[AsyncLease], object],
        on_lose: Callable[[], object],
        *,
        value: str = "",
    ) -> AsyncCandidacy:
        """Campaign in the background for as long as the `async with` block lasts.

        As `Election.run`; the callbacks may be coroutine functions.
        """
        return AsyncCandidacy(self, self._session, on_gain, on_lose, value)
