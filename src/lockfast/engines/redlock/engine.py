"""The Redlock engine: implements the port by votes of independent nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from lockfast.engines.one_by_one import singly
from lockfast.engines.redis.replies import Malformed, claim_id
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.attempt import Attempt, Departure, Extension, Poll, attempt
from lockfast.engines.redlock.claiming import DEAF, Claiming
from lockfast.engines.redlock.guarantees import probe
from lockfast.engines.redlock.inspection import highest_of, one_name, one_page, recorded
from lockfast.engines.redlock.requests import ask_all
from lockfast.errors import EngineError, EngineRefused
from lockfast.guarantees import Guarantees
from lockfast.port import EVERYONE, Ask, Engine, Page, Standing, Wake

CALM = 0.1  # seconds between attempts to subscribe


class RedlockEngine(Claiming):
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
        found: list[Standing | Exception | None] = [None] * len(asks)
        rows: list[tuple[int, Ask, Attempt, Extension | Poll]] = []
        parts: list[bytes] = []
        for i, ask in enumerate(asks):
            trial, shape = attempt(ask), ask.shape
            if trial.held:
                parts.append(messages.renew(shape.name, ask.id, trial.token, shape.ttl))
                rows.append((i, ask, trial, Extension(self._size)))
            elif trial.waiting and not trial.dead:
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
                continue
            told = ask.id in self._told
            self._told.discard(ask.id)
            try:
                found[i] = await self._judge(ask, trial, tally, began, told=told)
            except EngineError as error:
                found[i] = error
        return found

    async def resign(self, asks: Sequence[Ask], deadline: float, *, doubt: bool) -> list[bool]:
        """Release claims on all nodes, also on those that are not known to have them (trap 32)."""
        if not asks:
            return []
        if doubt:
            for ask in asks:
                attempt(ask).dead = True
        parts = [messages.resign(ask.shape.name, ask.id, attempt(ask).token) for ask in asks]
        broken = await self._broken(asks, deadline) if doubt else []
        tallies = [Departure(self._size) for _ in asks]
        until = self._now() + max(ask.shape.ttl for ask in asks)
        try:
            failed = await ask_all(self._transport, tallies, parts, deadline)
        finally:
            # Only now may the heart repeat the releases. If a repeated one reached a node first,
            # this one would find nothing there, which means that the lease was lost.
            self._chores.released(parts, until)
        for node in failed:
            self._lost(node)
        if broken:
            # After the release, raise the marks to the claim's number, so that every node refuses a
            # late copy.
            await ask_all(
                self._transport, [Departure(self._size) for _ in broken], broken, deadline
            )
            self._chores.released(broken, until)
        for tally in tallies:  # the others are released all the same
            if not tally.confirmed:
                raise tally.unconfirmed()
        for ask in asks:
            if doubt:
                trial = attempt(ask)
                trial.held = trial.waiting = trial.open = False
            else:
                ask.packed = None
        return [tally.removed for tally in tallies]

    async def _broken(self, asks: Sequence[Ask], deadline: float) -> list[bytes]:
        """Pack requests that raise the marks to the numbers of claims of other clients.

        A client that breaks a claim does not know its number. Without the number, a node that
        missed the claim would accept a copy that arrives late.
        """
        found = []
        for ask in asks:
            if not attempt(ask).token:
                token = await highest_of(self._transport, ask.shape.name, ask.id, deadline)
                if token:
                    found.append(messages.resign(ask.shape.name, ask.id, token))
        return found

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Send resignations after their claims on the same connections, where that can be done."""
        for ask in asks:
            self._transport.post(messages.resign(ask.shape.name, ask.id, attempt(ask).token))

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Do the chores that are due, then wait for messages on one node's channel."""
        try:
            due = await self._chores.do(deadline)
            if due is not None:
                deadline = due if deadline is None else min(deadline, due)
            if self._channel is None:
                await self._transport.pause(deadline)
                return []
            pushes = await self._hear(deadline)
        except EngineError:
            soon = self._now() + CALM
            await self._transport.pause(soon if deadline is None else min(deadline, soon))
            return []
        if pushes is None:
            return [EVERYONE]
        told = set(_ids(pushes))
        self._told = told
        return [Wake(ident, granted=False) for ident in told]

    async def _hear(self, deadline: float | None) -> list[bytes] | None:
        """Listen to the last node that answers, since releases are written to the others first."""
        assert self._channel is not None  # noqa: S101  # for the type checker
        now = self._now()
        willing = [n for n in self._transport.nodes if self._refusals.until(n) is None]
        if not willing:  # waiters poll meanwhile
            again = min(self._refusals.until(n) or now for n in self._transport.nodes)
            await self._transport.pause(again if deadline is None else min(deadline, again))
            return []
        nodes = [n for n in willing if self._deaf.get(n, 0.0) < now]
        node = (nodes or willing)[-1]
        try:
            pushes = await self._transport.listen(node, self._channel, deadline)
        except EngineRefused as error:
            self._refusals.note(node, self._channel, error)
            return []
        except EngineError:
            self._deaf[node] = now + DEAF
            raise
        if pushes is None:
            self._refusals.accepted(node)
        return pushes

    def rouse(self) -> None:
        """Make `listen` return now."""
        self._transport.rouse()

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


def _ids(pushes: Sequence[bytes]) -> Iterator[str]:
    """Return the ids in messages. Skip what is no id, since others may publish on the channel."""
    for message in pushes:
        with suppress(Malformed):
            yield claim_id(message)
