"""Candidacies: campaign in the background, call back at both ends of a leadership, and repeat."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from lockfast.claims.session import Session
from lockfast.claims.table import Table
from lockfast.errors import ClientClosed, LockfastError, NotAcquired
from lockfast.primitives.election import ElectionCore, checked_value
from lockfast.primitives.lease import LeaseCore
from lockfast.runtime.base import Event, Running

log = logging.getLogger("lockfast")
L = TypeVar("L", bound=LeaseCore)
PAUSE = 1.0  # seconds before it campaigns again after an error
PARTING = 5.0  # seconds that withdrawing may take, not counting the time of `on_lose`


class CandidacyCore(Generic[L]):
    """The shared part of sync and async candidacies.

    After an error it campaigns again, until it is withdrawn or its client is closed.
    """

    def __init__(
        self,
        election: ElectionCore[L],
        session: Session,
        on_gain: Callable[[L], object],
        on_lose: Callable[[], object],
        value: str,
    ) -> None:
        """Create the candidacy. `start` begins the campaign."""
        self._election = election
        self._session = session
        self._on_gain = on_gain
        self._on_lose = on_lose
        self._value = checked_value(value)  # here, because the campaign would fail without end
        self._withdrawn = False
        self._campaigning: Table | None = None
        """The client's table of claims while the campaign runs, else None."""
        self._running: Running | None = None
        self._owner: object = None
        self._ending: Event | None = None
        self._calling: Callable[..., object] | None = None
        """The callback that runs now. The lease is released when `on_lose` has returned."""
        self.lease: L | None = None

    def start(self) -> None:
        """Begin to campaign, in a background thread or task. The `with` statement calls this.

        Raises:
            RuntimeError: An earlier campaign of this candidacy has not ended.
            ClientClosed: The client was closed.
        """
        self._session.enter()
        if self._campaigning is self._session.table:  # a forked child has another table
            raise RuntimeError(
                f"this candidacy for {self._election.name!r} has not ended: one of its callbacks "
                "is still running. Wait for the callback, or make another candidacy."
            )
        self._table = self._campaigning = self._session.table
        self._withdrawn = False
        self._running = self._session.runtime.heart(self._run)
        self._running.start()

    async def _withdraw(self) -> None:
        """Resign, or leave the queue, and wait until `on_lose` has returned.

        It does not wait longer than 5 seconds for `on_gain` or for the engine, and not at all if a
        callback calls it.
        """
        self._withdrawn = True
        running, runtime = self._running, self._session.runtime
        if running is None or self._session.table is not self._table:
            return  # not started, or started by the parent of this forked process
        end = runtime.now() + PARTING
        while True:
            if self._owner is not None:
                self._table.call_off(self._owner)
            if self._ending is not None:
                self._ending.set()
            if self._owner == runtime.worker()[0]:
                return  # called in a callback of this candidacy, which cannot wait for itself
            if runtime.now() >= end:
                if self._calling is not self._on_lose:
                    return  # on_gain or the engine takes too long
                log.warning("on_lose of the election %r is still running", self._election.name)
                end += 12 * PARTING
            # In a loop, because `call_off` and `set` miss a thread that is just about to wait.
            if await running.ended(0.1):
                return

    async def _run(self) -> None:
        try:
            await self._campaign()
        finally:
            self._campaigning = None

    async def _campaign(self) -> None:
        self._owner = self._session.runtime.worker()[0]
        while not self._withdrawn:
            try:
                self.lease = await self._election._campaign(self._value)  # noqa: SLF001  # a part of it
                well = await self._lead(self.lease)
            except NotAcquired:
                continue  # called off by `_withdraw`
            except ClientClosed:
                return
            except LockfastError as error:
                log.warning(
                    "the campaign for %r failed, trying again: %s", self._election.name, error
                )
                well = False
            except Exception:  # a bug, or bad data: without this, it would never campaign again
                log.exception("the campaign for %r failed, trying again", self._election.name)
                well = False
            finally:
                self.lease = None
            if not well:
                await self._pause()

    async def _pause(self) -> None:
        self._ending = self._session.runtime.event()
        if not self._withdrawn:
            await self._ending.wait(self._session.runtime.now() + PAUSE)

    async def _lead(self, lease: L) -> bool:
        """Lead until the lease is lost or the candidacy is withdrawn.

        If `on_gain` fails, give the leadership up at once and return False.
        """
        ending = self._ending = self._session.runtime.event()
        well = await self._call(self._on_gain, lease)
        if well:
            self._table.on_end(lease.claim, ending)
            if not self._withdrawn:
                await ending.wait(None)
        await self._call(self._on_lose)
        try:
            await lease._release()  # noqa: SLF001  # a part of it
        except LockfastError as error:
            log.warning("no longer the leader of %r: %s", lease.name, error)
        except Exception:
            log.exception("no longer the leader of %r", lease.name)
        return well

    async def _call(self, callback: Callable[..., object], *args: object) -> bool:
        """Run a callback. Log what it raises, and return whether it succeeded.

        No exception of a callback may end the candidacy. `task.cancel(); await task` in a callback
        raises `CancelledError`, which is not an `Exception`. Uncaught, it would end the candidacy
        without a message, and without releasing the lease.
        """
        self._calling = callback
        try:
            result = callback(*args)
            if inspect.isawaitable(result):
                await result
        except BaseException as error:
            if self._session.runtime.ends(error):
                raise
            log.exception("a callback of an election failed")
            return False
        finally:
            self._calling = None
        return True
