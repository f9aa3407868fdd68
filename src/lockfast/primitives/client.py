"""The shared part of sync and async clients: the methods that return locks. They send nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Literal, TypeVar, overload

from lockfast.claims.session import Session
from lockfast.port import Shape
from lockfast.primitives.inspection import Inspecting
from lockfast.primitives.lock import patience
from lockfast.primitives.rwlock import LockT
from lockfast.primitives.shared_locks import SharedLocks

SkipT = TypeVar("SkipT")
RLockT = TypeVar("RLockT")
MultiLockT = TypeVar("MultiLockT")
ElectionT = TypeVar("ElectionT")


class ClientCore(
    SharedLocks[LockT], Inspecting, Generic[LockT, SkipT, RLockT, MultiLockT, ElectionT]
):
    """The shared part of `Client` and `AsyncClient`. The methods that begin with `_` make the
    objects of one mode.
    """

    def __init__(self, session: Session) -> None:
        """Take a session. Programs call `connect` instead."""
        self._session = session

    def _skip(self, lock: LockT) -> SkipT:
        raise NotImplementedError

    def _rlock(
        self, shape: Shape, timeout: float | None, purpose: str, at_most: float | None
    ) -> RLockT:
        raise NotImplementedError

    def _multilock(
        self,
        names: Sequence[str],
        ttl: float,
        timeout: float | None,
        purpose: str,
        at_most: float | None,
    ) -> MultiLockT:
        raise NotImplementedError

    def _election(self, name: str, ttl: float, at_most: float | None) -> ElectionT:
        raise NotImplementedError

    @overload
    def lock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_least: float = 0.0,
        at_most: float | None = None,
        on_busy: Literal["wait", "raise"] = "wait",
    ) -> LockT: ...

    @overload
    def lock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_least: float = 0.0,
        at_most: float | None = None,
        on_busy: Literal["skip"],
    ) -> SkipT: ...

    def lock(  # noqa: PLR0913  # each is a word that users look for
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_least: float = 0.0,
        at_most: float | None = None,
        on_busy: Literal["wait", "raise", "skip"] = "wait",
    ) -> LockT | SkipT:
        """Return a lock. Use it in a `with` statement, as a decorator, or call `acquire()`.

        Args:
            name: The name of the lock, 1 to 512 bytes in UTF-8. In a decorator, placeholders such
                as `"pay:{order_id}"` are filled from the arguments of each call.
            ttl: How long, in seconds, the lock stays taken after its holder crashes: 0.05 to
                86,400. lockfast renews the lock automatically while the holder is alive.
            timeout: How many seconds to wait for the lock. None waits for ever.
            purpose: A text that other clients can read, for example in `NotAcquired`.
            at_least: Seconds for which the lock stays taken, even if it is released sooner; at most
                the ttl. It makes a short scheduled job run once although the machines' clocks
                differ. If the process ends before that time, the lock stays taken until the ttl is
                over.
            at_most: Seconds after which a holder that hangs loses the lock, counted from the grant.
                lockfast does not renew it after that, so the lease ends at most a ttl later, with
                the reason `Loss.AT_MOST`. None sets no limit.
            on_busy: What to do if the lock is still held after `timeout` seconds. `"wait"` and
                `"raise"` raise `NotAcquired`. `"skip"` is for decorators: the call returns None
                without running the function. Without a timeout, `"wait"` waits for ever, and
                `"raise"` and `"skip"` take effect immediately.

        Returns:
            A description of the lock, which threads or tasks can share. Nothing is sent before it
            is acquired. With `on_busy="skip"` it is a decorator, and nothing else.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: The name or a number is out of range, or `on_busy` is unknown.

        Example:
            Hold the lock in a block, or while a function runs. In asyncio, write `async with` and
            decorate coroutine functions::

                with client.lock("report", ttl=10, timeout=5) as lease:
                    print("writing the report with token", lease.token)

                @client.lock("pay:{order_id}", on_busy="skip")
                def pay(order_id):
                    print("paying order", order_id)

                pay(42)
        """
        timeout = patience(on_busy, timeout)
        lock = self._lock(Shape(name, ttl), timeout, purpose, at_least, at_most)
        return self._skip(lock) if on_busy == "skip" else lock

    def rlock(
        self,
        name: str,
        *,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_most: float | None = None,
    ) -> RLockT:
        """Return a re-entrant lock: the thread or task that holds it can acquire it again.

        All acquisitions of the thread or task share one fencing token. The lock is released when
        the last of them is released.

        Args:
            name: The name of the lock, as for `lock`.
            ttl: How long, in seconds, the lock stays taken after its holder crashes.
            timeout: How many seconds to wait for the lock. None waits for ever.
            purpose: A text that other clients can read while they wait.
            at_most: Seconds after which lockfast stops renewing the lease. See `lock`.

        Returns:
            A description of the lock. Nothing is sent before it is acquired.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: The name or a number is out of range.

        Example:
            ::

                lock = client.rlock("account:7", ttl=10)
                with lock as outer, lock as inner:
                    assert outer.token == inner.token
        """
        return self._rlock(Shape(name, ttl), timeout, purpose, at_most)

    def lock_all(
        self,
        *names: str,
        ttl: float = 30.0,
        timeout: float | None = None,
        purpose: str = "",
        at_most: float | None = None,
    ) -> MultiLockT:
        """Return a lock on several names, which are acquired together, all or nothing.

        lockfast acquires them in one order, so two callers with the same names cannot deadlock. If
        one of the leases is lost, they count as lost together.

        Args:
            names: The names of the locks. The order does not matter.
            ttl: How long, in seconds, the locks stay taken after their holder crashes.
            timeout: How many seconds to wait for all of them. None waits for ever.
            purpose: A text that other clients can read while they wait.
            at_most: Seconds after which lockfast stops renewing the leases. See `lock`.

        Returns:
            A description of the locks. Nothing is sent before they are acquired.

        Raises:
            TypeError: A name is not a str, or another argument has the wrong type.
            ValueError: There is no name, or a name or a number is out of range.

        Example:
            ::

                with client.lock_all("account:7", "account:8", ttl=10) as leases:
                    print("transferring with", leases.tokens["account:7"])
        """
        return self._multilock(names, ttl, timeout, purpose, at_most)

    def election(self, name: str, *, ttl: float = 30.0, at_most: float | None = None) -> ElectionT:
        """Return a leader election. The holder of its lease is the leader, the token is the term.

        Args:
            name: The name of the election, as for `lock`.
            ttl: How long, in seconds, a leader that has crashed remains the leader.
            at_most: Seconds after which lockfast stops renewing a leadership. See `lock`.

        Returns:
            A description of the election. Nothing is sent before one of its methods is called.

        Raises:
            TypeError: An argument has the wrong type.
            ValueError: The name or a number is out of range.

        Example:
            Wait to become the leader, and lead until the block ends::

                with client.election("scheduler", ttl=10).campaign("10.0.0.5:8000") as lease:
                    print("this process leads, in term", lease.token)
        """
        return self._election(name, ttl, at_most)
