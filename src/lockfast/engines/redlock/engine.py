"""The Redlock engine: implements the port by a ballot over independent nodes."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace

from lockfast.core.ballot import Verdict, quorum
from lockfast.core.token import mint
from lockfast.engines.one_by_one import singly
from lockfast.engines.redis.messages import Malformed, claim_id, octets, reading
from lockfast.engines.redis.refusals import Refusals
from lockfast.engines.redis.transport import Address
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.attempt import (
    Attempt,
    Departure,
    Extension,
    Poll,
    attempt,
    demoted,
    granted,
)
from lockfast.engines.redlock.chores import Chores
from lockfast.engines.redlock.guarantees import probe
from lockfast.engines.redlock.inspection import highest_of, one_name, one_page, recorded
from lockfast.engines.redlock.requests import ask_all, load
from lockfast.engines.redlock.transport import Answer, Transport
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.guarantees import Finding, Guarantees
from lockfast.port import EVERYONE, Ask, Page, Standing, Wake
from lockfast.runtime.base import Clock

CALM = 0.1  # seconds between attempts to subscribe
DEAF = 5.0  # seconds for which a node that did not answer is not listened to
ROUNDS = 8  # proposals that one claim makes before it says how it stands
AHEAD = 86_400_000_000  # microseconds, a day: a mark that is further ahead of our clock is doubted


class RedlockEngine:
    """One client's engine."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        base: int,
        weak: Sequence[Finding] = (),
    ) -> None:
        """Add `base` to every number that is proposed by the clock. `weak`: what is wrong with the
        way to the nodes.
        """
        self._transport = transport
        transport.late, transport.lost = self._late, self._lost
        self._size = len(transport.nodes)
        self._quorum = quorum(self._size)
        self._now = clock
        self._sleep = sleep
        self._base = base
        self._weak = weak
        self._highest = 0
        self._deaf: dict[Address, float] = {}
        self._channel: str | None = None
        self._told: set[str] = set()
        self._chores = Chores(transport, clock)
        self._refusals = Refusals(clock)

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Propose to all nodes at once: one round trip, unless the number was too low."""
        if ask.shape.capacity != 1:
            raise EngineRefused(
                "Redlock locks exclusively, with capacity 1: permits and readers that are counted "
                "by majorities of independent nodes can exceed their number, since each majority "
                "counts others. Use redis:// or postgresql:// for semaphores and read/write locks."
            )
        if self._channel is None:
            self._channel = messages.PREFIX + ask.id[:22]
            self._transport.rouse()
        trial = attempt(ask)
        number = 0
        while True:
            if trial.dead or self._now() > ask.not_after:
                return None
            began = self._now()
            poll = Poll(self._size, ask.shape.ttl)
            await self._propose(ask, trial, poll, min(deadline, began + messages.UNDER_WAY))
            standing = await self._judge(ask, trial, poll, began)
            number += 1
            if standing.granted or number >= ROUNDS or self._now() >= deadline:
                break
            if poll.verdict is Verdict.TAKEN or (poll.verdict is Verdict.SPLIT and ask.queue):
                break
            if poll.verdict is Verdict.SPLIT:
                # Several want it at once, and nobody has it: one that will not wait must not
                # conclude that somebody has.
                await self._sleep((standing.recheck or 0.0) * number)
        return standing if ask.queue or standing.granted else standing._replace(ticket=0)

    async def _propose(self, ask: Ask, trial: Attempt, poll: Poll, end: float) -> None:
        self._number(trial)
        nodes, hear_one = self._transport.nodes, poll.hear

        def hear(node: int, answer: Answer) -> float:
            reply = answer[0] if type(answer) is list else answer
            hear_one(node, reply, nodes[node])
            if demoted(reply):
                self._transport.forget(nodes[node])
            return poll.patience

        await self._transport.scatter([trial.packet(ask)] * self._size, 1, end, hear)
        if poll.lacking:
            await load(self._transport, end)

    def _number(self, trial: Attempt) -> None:
        """Choose the number to propose: another each time, but the same while that may have won."""
        if not trial.open and not trial.held:
            try:
                trial.token = mint(self._highest, self._clock())
            except OverflowError as error:
                raise EngineRefused(f"no token is left: {error}") from None
            self._highest = trial.token
            trial.since = trial.since or trial.token
            trial.open = True

    def _clock(self) -> int:
        """Return the time in microseconds, by which tokens grow."""
        return time.time_ns() // 1000 + self._base

    async def _judge(
        self, ask: Ask, trial: Attempt, poll: Poll, began: float, *, told: bool = False
    ) -> Standing:
        """Say how a claim stands after a proposal; withdraw one that did not win.

        `told`: a node has told that it is free. The others may not have known yet: look soon.
        """
        self._highest = max(
            self._highest, poll.highest(self._clock() + AHEAD, self._clock() + 36_500 * AHEAD)
        )
        for node, key in poll.missing.items():
            self._meet(node, key)
        verdict = poll.verdict
        if trial.dead:  # it was given up in the meantime, perhaps before its number was chosen
            await self._free(ask, trial, set(range(self._size)), withdrawn=False)
            verdict = Verdict.OUTBID
        elif verdict is Verdict.WON:
            left = poll.left
            if self._now() - began < min(messages.UNDER_WAY, left):
                trial.held, trial.open, trial.waiting, trial.pause = True, False, False, 0.0
                return granted(trial.token, left)
            verdict = Verdict.OUTBID  # read too late to count
        if verdict is Verdict.UNREACHABLE:
            if poll.lacking:  # they have the scripts now
                return poll.refused(trial, Verdict.OUTBID)
            raise poll.unreachable()
        await self._free(ask, trial, poll.loose, withdrawn=True)
        trial.open = trial.held = False
        if verdict is Verdict.STRANGERS:
            raise EngineRefused(
                f"{len(poll.strangers)} of {self._size} Redis nodes are no members of this set. If "
                "it is new, run lockfast.engines.redlock.install(url) once. If they lost their "
                "data, read the page on Redlock first."
            )
        trial.waiting = ask.queue
        return poll.refused(trial, Verdict.SPLIT if told else verdict)

    def _lost(self, node: int) -> None:
        """Have the heart tell a node again what it may have missed."""
        self._chores.lost(node)
        self._transport.rouse()

    def _late(self, node: int, reply: object) -> None:
        """Look at a reply that nobody waits for any more: a node may say that it is no member."""
        if type(reply) is list and reply and reply[0] == b"stranger":
            with suppress(Malformed), reading():
                self._meet(node, octets(reply[1]))
        else:
            self._chores.hear(node, reply)

    def _meet(self, node: int, key: bytes) -> None:
        """Have the heart see to a node that is no member. Nobody waits there: listen elsewhere."""
        self._chores.met(node, key)
        self._deaf[self._transport.nodes[node]] = self._now() + DEAF
        self._transport.rouse()

    async def _free(self, ask: Ask, trial: Attempt, nodes: set[int], *, withdrawn: bool) -> None:
        """Take a proposal back where it was accepted, or may be. Nobody waits for the answer."""
        if nodes:
            packet = messages.resign(ask.shape.name, ask.id, trial.token, withdrawn=withdrawn)
            requests = [packet if node in nodes else None for node in range(self._size)]
            await self._transport.scatter(requests, 1, self._now(), None)

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Append several, one by one."""
        return await singly(self.claim, asks, deadline)

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend what is held, and propose anew what waits: all in one round trip."""
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
                rows.append((i, ask, trial, Poll(self._size, shape.ttl)))
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
        """Free everywhere, also where nothing is known to be (trap 32)."""
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
            # Not before: a heart that told it again to a node first would leave nothing to be
            # found there, and a release that finds nothing says that the lease was lost.
            self._chores.released(parts, until)
        for node in failed:
            self._lost(node)
        if broken:
            # After what it has was freed: every node refuses a late copy by the number it had.
            await ask_all(
                self._transport, [Departure(self._size) for _ in broken], broken, deadline
            )
            self._chores.released(broken, until)
        if not tallies[0].confirmed:
            raise EngineUnavailable(
                f"fewer than {self._quorum} of {self._size} Redis nodes confirmed the release",
                sent=True,
            )
        for ask in asks:
            if doubt:
                trial = attempt(ask)
                trial.held = trial.waiting = trial.open = False
            else:
                ask.packed = None
        return [tally.removed for tally in tallies]

    async def _broken(self, asks: Sequence[Ask], deadline: float) -> list[bytes]:
        """Pack what raises the marks to the numbers of claims that are another client's.

        Who breaks a claim does not know its number. Without it, a node that missed the claim would
        accept a copy that arrives late.
        """
        found = []
        for ask in asks:
            if not attempt(ask).token:
                token = await highest_of(self._transport, ask.shape.name, ask.id, deadline)
                if token:
                    found.append(messages.resign(ask.shape.name, ask.id, token))
        return found

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Write the resignation behind the claim on the same connections, where that can be."""
        for ask in asks:
            self._transport.post(messages.resign(ask.shape.name, ask.id, attempt(ask).token))

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Sleep on one node's channel; now and then, see to nodes that need it."""
        try:
            due = await self._chores.do(deadline)
            if due is not None:
                deadline = due if deadline is None else min(deadline, due)
            if self._channel is None:
                await self._transport.pause(deadline)
                return []
            messages = await self._hear(deadline)
        except EngineError:
            soon = self._now() + CALM
            await self._transport.pause(soon if deadline is None else min(deadline, soon))
            return []
        if messages is None:
            return [EVERYONE]
        told = set(_ids(messages))
        self._told = told
        return [Wake(ident, granted=False) for ident in told]

    async def _hear(self, deadline: float | None) -> list[bytes] | None:
        """Listen to the last node that answers: a release is written to it after the others."""
        assert self._channel is not None  # noqa: S101  # for the type checker
        now = self._now()
        willing = [n for n in self._transport.nodes if self._refusals.until(n) is None]
        if not willing:  # waiters look by themselves
            again = min(self._refusals.until(n) or now for n in self._transport.nodes)
            await self._transport.pause(again if deadline is None else min(deadline, again))
            return []
        nodes = [n for n in willing if self._deaf.get(n, 0.0) < now]
        node = (nodes or willing)[-1]
        try:
            messages = await self._transport.listen(node, self._channel, deadline)
        except EngineRefused as error:
            self._refusals.note(node, self._channel, error)
            return []
        except EngineError:
            self._deaf[node] = now + DEAF
            raise
        if messages is None:
            self._refusals.accepted(node)
        return messages

    def rouse(self) -> None:
        """Wake the listener."""
        self._transport.rouse()

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Show who holds by majority, and who waits anywhere."""
        deadline = self._now() + 5.0
        if exact:
            return await one_name(self._transport, names, deadline)
        return await one_page(self._transport, names, cursor, deadline)

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:  # noqa: ARG002  # the port's
        """Keep it on every node; a majority must answer."""
        await recorded(self._transport, name, record, deadline)

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Read what any of a majority has kept."""
        return await recorded(self._transport, name, b"", deadline)

    async def guarantees(self, deadline: float) -> Guarantees:
        """Ask every node."""
        found = await probe(self._transport, deadline)
        return replace(found, findings=(*found.findings, *self._weak))

    def reset(self) -> None:
        """Forget every connection."""
        self._transport.reset()

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()


def _ids(messages: Sequence[bytes]) -> Iterator[str]:
    """Read the ids in messages. Anybody may send one to our channel: what is no id is left out."""
    for message in messages:
        with suppress(Malformed):
            yield claim_id(message)
