"""The blocking locks and leases: what a `Client` gives out. Each is the shared one, driven."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from inspect import iscoroutinefunction
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from lockfast.claims.release import give_up
from lockfast.errors import LockfastError, NotAcquired
from lockfast.primitives.candidacy import CandidacyCore
from lockfast.primitives.election import ElectionCore, Leader, Observer
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
    """How whatever was acquired ends: what a lease, a frame of one and many leases share."""

    __slots__ = ()

    def _release(self) -> Coroutine[Any, Any, None]:
        raise NotImplementedError

    def _abandon(self) -> None:
        raise NotImplementedError

    def ensure_held(self) -> None:
        """Raise `LeaseLost` unless it is good now."""
        raise NotImplementedError

    def release(self) -> None:
        """Release the lease. Twice is fine; after a loss it raises `LeaseLost`, once.

        After an engine's error it can be called again.
        """
        coroutine = None
        try:
            coroutine = self._release()
            coroutine.send(None)
        except StopIteration:
            return
        except LockfastError:
            raise
        except BaseException:  # Ctrl-C, perhaps before the release began: it is wanted all the same
            if coroutine is not None:
                coroutine.close()
            self._abandon()
            raise

    def __enter__(self) -> Self:
        """Begin the body, unless the lease is lost already (trap 6)."""
        self.ensure_held()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Release. An error of the release never masks the body's (trap 7)."""
        try:
            self.release()
        except LockfastError as failure:
            if error is None:
                raise
            error.add_note(f"lockfast: the release failed too: {failure}")


class Lease(LeaseCore, Ending):
    """One acquisition. Leaving `with` releases it."""

    __slots__ = ()

    wait_lost = blocking(LeaseCore._wait_lost)

    def _abandon(self) -> None:
        give_up(self._session, self.claim)


class Lock(LockCore[Lease]):
    """A lock for threads. `with lock:` acquires it, and releases it at the end."""

    __slots__ = ()

    try_acquire = blocking(LockCore[Lease]._try_acquire)
    holders = blocking(LockCore[Lease]._holders)
    queue = blocking(LockCore[Lease]._queue)

    def acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> Lease:
        """Wait for the grant, `timeout` seconds at most (None: for ever), and return the lease.

        Raises `NotAcquired` when the time is over.
        """
        return drive(self._acquire(timeout=timeout))

    def __enter__(self) -> Lease:
        """Acquire."""
        block = beginning()
        lease = block.lease = drive(self._acquire_in(block))
        return lease

    __exit__ = Leaving(Lease.__exit__)

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Decorate: every call runs under the lock, whose name is filled from the arguments."""
        template = Template(self.name, _plain(function))

        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> T:
            with self._renamed(template.name(args, kwargs)) as lease:
                template.inject(args, kwargs, lease)
                return function(*args, **kwargs)

        return run


class Skip(OnlyDecorates):
    """A lock that only decorates: a call that finds it busy does nothing and returns None."""

    def __init__(self, lock: Lock) -> None:
        """Take the lock."""
        self._lock = lock

    def __call__(self, function: Callable[P, T]) -> Callable[P, T | None]:
        """Decorate."""
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
                    raise  # of a lock that the function itself did not get
                return None

        return run


def _plain(function: Callable[P, T]) -> Callable[P, T]:
    if iscoroutinefunction(function):
        raise TypeError("a coroutine function needs the lock of a client of lockfast.aio.connect()")
    return function


class MultiLease(MultiLeaseCore[Lease], Ending):
    """Leases of several resources. Leaving `with` releases all of them."""

    __slots__ = ()

    wait_lost = blocking(MultiLeaseCore[Lease]._wait_lost)

    def _abandon(self) -> None:
        for lease in self.leases.values():
            give_up(self._session, lease.claim)


class MultiLock(MultiLockCore[Lease, MultiLease]):
    """Several locks as one, for threads."""

    __slots__ = ()

    try_acquire = blocking(MultiLockCore[Lease, MultiLease]._try_acquire)

    def acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> MultiLease:
        """Wait until all are granted, and return them; as `Lock.acquire`."""
        return drive(self._acquire(timeout=timeout))

    def __enter__(self) -> MultiLease:
        """Acquire."""
        block = beginning()
        leases = block.lease = drive(self._acquire(block=block))
        return leases

    __exit__ = Leaving(MultiLease.__exit__)


class RLease(RLeaseCore, Ending):
    """One frame's part in a re-entrant lease."""

    __slots__ = ()

    wait_lost = blocking(LeaseCore._wait_lost)


class RLock(RLockCore[RLease]):
    """A re-entrant lock for threads."""

    __slots__ = ()

    try_acquire = blocking(RLockCore[RLease]._try_acquire)
    holders = blocking(LockCore[RLease]._holders)
    queue = blocking(LockCore[RLease]._queue)

    def acquire(self, *, timeout: float | Default | None = Default.OF_LOCK) -> RLease:
        """Wait for the grant, unless this thread has it; as `Lock.acquire`."""
        return drive(self._acquire(timeout=timeout))

    def __enter__(self) -> RLease:
        """Acquire."""
        block = beginning()
        lease = block.lease = drive(self._acquire(block=block))
        return lease

    __exit__ = Leaving(RLease.__exit__)


class Candidacy(CandidacyCore[Lease]):
    """A candidate in a thread of its own. Leaving `with` withdraws it."""

    withdraw = blocking(CandidacyCore[Lease]._withdraw)

    def __enter__(self) -> Self:
        """Begin to campaign."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Withdraw, and resign."""
        self.withdraw()


class Election(ElectionCore[Lease]):
    """An election, for threads."""

    __slots__ = ()

    campaign = blocking(ElectionCore[Lease]._campaign)
    leader = blocking(ElectionCore[Lease]._leader)

    def observe(self, every: float = 1.0) -> Iterator[Leader]:
        """Iterate over the leaders, from the present one on; looked for every so many seconds."""
        observer = Observer(self, self._session, every)
        while True:
            yield drive(observer.following())

    def run(
        self,
        on_gain: Callable[[Lease], object],
        on_lose: Callable[[], object],
        *,
        value: str = "",
    ) -> Candidacy:
        """Campaign in the background for as long as the `with` block lasts.

        `on_gain` is called with the lease when this process begins to lead, `on_lose` when it ends
        to, for whatever reason: start and stop a scheduler there.
        """
        return Candidacy(self, self._session, on_gain, on_lose, value)
