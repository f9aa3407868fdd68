"""A candidacy: campaign in the background, lead, be told of both ends, and begin again."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from lockfast.errors import EngineError, LeaseLost, NotAcquired
from lockfast.nouns.election import ElectionCore
from lockfast.nouns.lease import LeaseCore
from lockfast.session import Session

log = logging.getLogger("lockfast")
L = TypeVar("L", bound=LeaseCore)
PATIENCE = 1.0  # seconds in line before it looks whether it was withdrawn
PARTING = 5.0  # seconds that withdrawing may take


class CandidacyCore(Generic[L]):
    """One candidate. Whatever goes wrong, it goes on until it is withdrawn."""

    def __init__(
        self,
        election: ElectionCore[L],
        session: Session,
        on_gain: Callable[[L], object],
        on_lose: Callable[[], object],
        value: str,
    ) -> None:
        """Do not campaign yet."""
        self._election = election
        self._session = session
        self._on_gain = on_gain
        self._on_lose = on_lose
        self._value = value
        self._withdrawn = False
        self._running = session.runtime.heart(self._run)
        self.lease: L | None = None
        """The leadership, while it lasts."""

    def start(self) -> None:
        """Begin to campaign, in a thread or task beside the caller."""
        self._session.enter()
        self._running.start()

    async def _withdraw(self) -> None:
        """Resign, or leave the line; `on_lose` has been called when this returns."""
        self._withdrawn = True
        await self._running.join(PARTING)

    async def _run(self) -> None:
        while not self._withdrawn:
            try:
                self.lease = await self._election._campaign(self._value, timeout=PATIENCE)  # noqa: SLF001  # a part of it
            except NotAcquired:
                continue
            except EngineError as error:
                log.warning("the campaign for %r goes on: %s", self._election.name, error)
                await self._session.runtime.sleep(PATIENCE)
                continue
            await self._lead(self.lease)
            self.lease = None

    async def _lead(self, lease: L) -> None:
        try:
            await self._call(self._on_gain, lease)
            while not self._withdrawn and not await lease._wait_lost(0.1):  # noqa: SLF001  # a part of it
                pass
        finally:
            try:
                await self._call(self._on_lose)
            finally:
                try:
                    await lease._release()  # noqa: SLF001  # a part of it
                except (LeaseLost, EngineError) as error:
                    log.warning("no longer the leader of %r: %s", lease.name, error)

    @staticmethod
    async def _call(callback: Callable[..., object], *args: object) -> None:
        try:
            result = callback(*args)
            if inspect.isawaitable(result):
                await result
        except Exception:  # what a callback does must not end the candidacy
            log.exception("a callback of an election failed")
