"""The Redlock engine: implements the port by votes of independent nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from lockfast.engines import wall_clock
from lockfast.engines.one_by_one import singly
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.attempt import Departure, Extension, Poll
from lockfast.engines.redlock.guarantees import probe
from lockfast.engines.redlock.inspection import highest_of, one_name, one_page, recorded
from lockfast.engines.redlock.listening import Listening
from lockfast.engines.redlock.requests import ask_all
from lockfast.engines.redlock.trials import Trial
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.guarantees import Guarantees
from lockfast.port import TOMB_MARGIN, Ask, Engine, Page, Standing

REFUSED = messages.UNDER_WAY + TOMB_MARGIN
"""Seconds for which a node refuses an id after the last moment at which a copy may be sent."""


class RedlockEngine(Listening):
    """The Redlock engine of one client."""

    stand_in: Callable[[], Engine]
    """Makes a blocking engine for the same URL, which can renew this engine's claims, because only
    the server knows which claims live. `opener` sets it for asyncio."""

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Make several claims, one by one."""
        return await singly(self.claim, asks, deadline)

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Renew the claims that hold and propose those that wait again, all in one round trip."""
        return await self._apart(asks, partial(self._renew, deadline=deadline))

    async def _renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        found: list[Standing | Exception | None] = [None] * len(asks)
        rows: list[tuple[int, Ask, Trial, Extension | Poll]] = []
        parts: list[bytes] = []
        for i, ask in enumerate(asks):
            trial, shape = self._trials.get(ask), ask.shape
            if trial is None or trial.dead:
                continue
            if trial.held:
                parts.append(messages.renew(shape.name, ask.id, trial.token, shape.ttl))
                rows.append((i, ask, trial, Extension(self._size)))
            elif trial.waiting:
                self._number(trial)
                parts.append(trial.packet(ask))
                rows.append((i, ask, trial, Poll(self._size, shape)))
        if not rows:
            return found
        began = self._now()
        end = min(deadline, began + messages.UNDER_WAY)
        await ask_all(self._transport, [row[3] for row in rows], parts, end, heart=True)
        for i, ask, trial, tally in rows:
            if isinstance(tally, Extension):
                found[i] = tally.standing(trial.token, ask.shape.ttl)
                trial.held = found[i] is not None
                if not trial.held:
                    self._trials.forget(ask)
                continue
            told = ask.id in self._told
            self._told.discard(ask.id)
            try:
                standing = await self._judge(ask, trial, tally, began, told=told)
                found[i] = None if trial.dead else standing
            except EngineError as error:
                found[i] = error
        return found

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Release claims on all nodes, also on those that are not known to have them (trap 32)."""
        return await self._apart(asks, partial(self._resign, deadline=deadline, doubt=doubt))

    async def _resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        if not asks:
            return []
        if doubt:
            for ask in asks:
                self._trials.entomb(ask)
        now = self._now()
        numbers = await self._numbers(asks, now, deadline) if doubt else None
        parts, ttl = [], 0.0
        for i, ask in enumerate(asks):
            number = self._number_of(ask) if numbers is None else numbers[i]
            tomb = max(ask.not_after - now, 0.0) + REFUSED if doubt else 0.0
            parts.append(messages.resign(ask.shape.name, ask.id, number, tomb=tomb))
            ttl = max(ttl, ask.shape.ttl, tomb)
        tallies = [Departure(self._size) for _ in asks]
        try:
            failed = await ask_all(self._transport, tallies, parts, deadline)
        finally:
            # Only now may the heart repeat the releases. If a repeated one reached a node first,
            # this one would find nothing there, which means that the lease was lost.
            self._chores.released(parts, self._now() + ttl)
        for node in failed:
            self._lost(node)
        for ask, tally in zip(asks, tallies, strict=True):
            if tally.confirmed and not doubt:
                self._trials.forget(ask)
        return [tally.removed if tally.confirmed else tally.unconfirmed() for tally in tallies]

    def _number_of(self, ask: Ask) -> int:
        """Return the highest number of a claim that this engine knows."""
        trial = self._trials.get(ask)
        return max(ask.ticket, trial.token) if trial is not None else ask.ticket

    async def _numbers(self, asks: Sequence[Ask], now: float, deadline: float) -> list[int]:
        """Return the numbers of claims, also of those that other engines have proposed.

        A node that refuses the id does so for a time only. So a resignation also raises the marks
        to the number, and then every node refuses a late copy, however late it is (trap 47).
        """
        numbers = [self._number_of(ask) for ask in asks]
        trials = map(self._trials.of, asks)
        unknown = [i for i, trial in enumerate(trials) if not trial.token]
        if unknown:
            wanted = [(asks[i].shape.name, asks[i].id) for i in unknown]
            with suppress(EngineUnavailable):  # then few nodes will confirm the release either
                half = now + (deadline - now) / 2.0
                found = await highest_of(self._transport, wanted, half)
                for i, number in zip(unknown, found, strict=True):
                    numbers[i] = max(numbers[i], number)
        return numbers

    def time(self, name: str) -> float:  # noqa: ARG002  # one clock for all names
        """Return the wall clock of this process. Each node has a clock of its own, and none decides
        about a claim. What that means for replicas of the service is in `wall_clock`.
        """
        return wall_clock.seconds()

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Send resignations after their claims on the same connections, where that can be done."""
        for ask in asks:
            self._transport.post(messages.resign(ask.shape.name, ask.id, self._number_of(ask)))

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Return the claims that hold or wait on a majority of the nodes."""
        deadline = self._now() + 5.0
        if exact:
            return await one_name(self._transport, names, deadline)
        return await one_page(self._transport, names, cursor, deadline)

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:  # noqa: ARG002  # the port's
        """Keep the record of a break on every node. A majority must answer."""
        await recorded(self._transport, name, record, deadline)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Return the records that any of the nodes that answered has kept."""
        return await recorded(self._transport, name, b"", deadline)

    async def guarantees(self, deadline: float) -> Guarantees:
        """Return the guarantees, from what every node reports."""
        found = await probe(self._transport, deadline)
        return replace(found, findings=(*found.findings, *self._weak))

    def reset(self) -> None:
        """Forget every connection, because the process has forked."""
        self._transport.reset()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()
