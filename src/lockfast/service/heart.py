"""The heart of a replica: the one task that renews claims, and that receives wakes.

Renewals of all connections are collected for a moment, and sent together. Each comes from the heart
of a client. The replica renews nothing by itself: otherwise a client that died would keep its locks
for longer than a ttl.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from lockfast.errors import EngineUnavailable, LockfastError
from lockfast.port import Ask, Engine, Standing, Wake
from lockfast.runtime.base import Runtime
from lockfast.service.attaching import attached
from lockfast.service.entry import Entry
from lockfast.service.figures import Figures
from lockfast.service.replies import internal

log = logging.getLogger("lockfast")
WINDOW = 0.1  # seconds for which renewals are collected, from the first one
SIZE = 256  # claims in one call
PAUSE = 0.1  # seconds after an error, so that one that stays does not take the processor


class Heart:
    """A loop that sleeps in `listen` and then renews. It survives all errors."""

    def __init__(
        self,
        engine: Engine,
        runtime: Runtime,
        route: Callable[[Sequence[Wake]], None],
        figures: Figures,
        window: float = WINDOW,
    ) -> None:
        """Create a heart that is not running. `route` sends wakes to connections."""
        self._engine = engine
        self._runtime = runtime
        self._route = route
        self._figures = figures
        self._window = window
        self._pending: list[Entry] = []
        self._sorted = True
        self._due: float | None = None
        """When the next call is due. None: nothing is pending."""
        self._stopping = False
        self._running = runtime.heart(self._live)

    def start(self) -> None:
        """Start the task."""
        self._running.start()

    async def end(self, timeout: float) -> None:
        """End the task, after the call that is under way, or after `timeout` seconds."""
        self._stopping = True
        self._engine.rouse()
        await self._running.join(timeout)

    def renew(self, entry: Entry) -> None:
        """Renew a claim, together with others unless it is urgent."""
        self._pending.append(entry)
        self._sorted = False
        # A client that waits only for a moment must not spend that moment in the window.
        wait = 0.0 if entry.urgent else min(self._window, (entry.deadline - entry.arrived) / 4.0)
        due = entry.arrived + wait
        if self._due is None or due < self._due:
            self._due = due
            self._engine.rouse()

    async def _live(self) -> None:
        while not self._stopping:
            try:
                await self._listen()
            except Exception:
                log.exception("internal error while waiting for wakes; the service continues")
                await self._runtime.sleep(PAUSE)
            try:
                await self._beat()
            except Exception:
                log.exception("internal error while renewing leases; the service continues")

    async def _listen(self) -> None:
        wakes = await self._engine.listen(self._due)
        if wakes:
            self._route(wakes)

    async def _beat(self) -> None:
        """Send one call if it is due. Between two calls the heart listens, so that many renewals do
        not delay a wake.
        """
        if self._due is None or self._runtime.now() < self._due:
            return
        entries = self._take()
        if not self._pending:
            self._due = None
        if entries:
            await self._call(entries)

    def _take(self) -> list[Entry]:
        """Return the entries of the next call. Those of the most impatient clients come first.

        One server of an ensemble, or one shard, may not answer while the others do. Waiting for it
        must not cost a lease of a short ttl. So a call has only claims of similar patience.
        """
        now = self._runtime.now()
        if not self._sorted:
            self._pending.sort(key=_order)
            self._sorted = True
        taken: dict[str, Entry] = {}
        left: list[Entry] = []
        limit = 0.0
        for place, entry in enumerate(self._pending):
            if len(taken) == SIZE:
                left += self._pending[place:]
                break
            patience = entry.deadline - entry.arrived
            if entry.answers.unwanted():
                continue
            if entry.deadline <= now:
                said = "the renewals before it took too long"
                entry.put(EngineUnavailable(said, sent=False))
            elif taken and (patience > limit or entry.ask.id in taken or entry.ask.alone):
                left.append(entry)
            else:
                limit = limit or 2.0 * patience
                taken[entry.ask.id] = entry
        self._pending = left
        return list(taken.values())

    async def _call(self, entries: list[Entry]) -> None:
        deadline = max(entry.deadline for entry in entries)
        answers: Sequence[Standing | Exception | None]
        try:
            asks = [entry.ask for entry in entries]
            call = partial(self._renew, deadline=deadline)
            answers = await attached(self._engine, asks, deadline, self._figures, call)
            if len(answers) != len(entries):
                raise ValueError(f"{len(answers)} answers to {len(entries)} renewals")
        except EngineUnavailable as error:
            answers = [error] * len(entries)
        except LockfastError as error:
            if len(entries) > 1:  # one of them is at fault, and the others are strangers to it
                for entry in entries:
                    entry.ask.alone = True
                self._pending += entries
                self._sorted = False
                self._due = self._runtime.now()
                return
            answers = [error]
        except Exception as error:  # noqa: BLE001  # it is logged
            answers = [internal(error)] * len(entries)
        for entry, answer in zip(entries, answers, strict=True):
            entry.put(answer)

    def _renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> Coroutine[Any, Any, Sequence[Standing | Exception | None]]:
        renewal = self._engine.renew(asks, deadline)
        return self._figures.measured("renew", len(asks), renewal)


def _order(entry: Entry) -> tuple[bool, float]:
    """Those that are sent by themselves come last: they take one call each."""
    return entry.ask.alone, entry.deadline - entry.arrived
