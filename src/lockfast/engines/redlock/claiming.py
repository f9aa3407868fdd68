"""Makes claims: proposes a number to all nodes at once, and acts on their answers."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from lockfast.core.ballot import Verdict, quorum
from lockfast.core.token import mint
from lockfast.engines.redis.replies import Malformed, octets, reading
from lockfast.engines.redis.transport import Address
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.attempt import Poll, demoted, granted
from lockfast.engines.redlock.chores import Chores
from lockfast.engines.redlock.requests import load
from lockfast.engines.redlock.transport import Answer, Transport
from lockfast.engines.redlock.trials import Trial, Trials
from lockfast.errors import EngineRefused
from lockfast.guarantees import Finding
from lockfast.port import Ask, Kind, Standing
from lockfast.runtime.base import Clock

DEAF = 5.0  # seconds for which a node that did not answer is not listened to
ROUNDS = 8  # proposals in one call of `claim`, at most
AHEAD = 86_400_000_000  # microseconds, a day: a mark that is further ahead of our clock is doubted
TOLD = 3_600_000_000
"""Microseconds, an hour. A client of the service says which number its claim has, and nodes raise
their marks to it. One further ahead of our clock, and of all marks that we know, is refused: it
could raise a mark to the limit of tokens, and then no claim could get a number any more."""
A = TypeVar("A")


class Claiming:
    """The part of the engine that makes claims."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        base: int,
        weak: Sequence[Finding] = (),
    ) -> None:
        """Add `base` to the clock's time in every proposed number. `weak`: findings about
        unprotected connections.
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
        self._told: set[str] = set()
        self._chores = Chores(transport, clock)
        transport.owing = self._chores.owing
        self._trials = Trials(clock)

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Propose a claim to all nodes at once, and again if the number was too low."""
        error = self._wrong(ask)
        if error is not None:
            raise error
        trial = self._trials.of(ask)
        number = 0
        while True:
            if trial.dead or self._now() > ask.not_after:
                return None
            began = self._now()
            poll = Poll(self._size, ask.shape)
            await self._propose(ask, trial, poll, min(deadline, began + messages.UNDER_WAY))
            standing = await self._judge(ask, trial, poll, began)
            number += 1
            if trial.dead:
                return None
            if trial.adopted and trial.open and number < ROUNDS:
                continue
            if standing.granted or number >= ROUNDS or self._now() >= deadline:
                break
            if poll.verdict is Verdict.TAKEN or (poll.verdict is Verdict.SPLIT and ask.queue):
                break
            if poll.verdict is Verdict.SPLIT:
                # Several claims compete and none has won. A claim without `queue` must try again,
                # since its caller would conclude that the lock is held.
                await self._sleep((standing.recheck or 0.0) * number)
        if ask.queue or standing.granted:
            return standing
        self._trials.forget(ask)
        return standing._replace(ticket=0)

    def _wrong(self, ask: Ask) -> EngineRefused | None:
        """Return the error for a claim that cannot be, or None."""
        if ask.shape.kind is not Kind.LOCK:
            return EngineRefused(
                "Redlock has exclusive locks only. Independent nodes cannot count permits and "
                "readers, because two majorities can count different ones. Use redis:// or "
                "postgresql:// for semaphores and read/write locks."
            )
        return self._doubted(ask)

    def _doubted(self, ask: Ask) -> EngineRefused | None:
        """Return the error for a claim whose number, as its client says, cannot be, or None."""
        if ask.ticket <= max(self._highest, self._clock() + TOLD):
            return None
        return EngineRefused(
            f"the claim on {ask.shape.name!r} cannot have the ticket {ask.ticket}, which no node "
            "has given out: compare the clocks of the replicas"
        )

    async def _apart(
        self, asks: Sequence[Ask], call: Callable[[Sequence[Ask]], Awaitable[list[A]]]
    ) -> list[A | EngineRefused]:
        """Call with the claims that can be. Those of doubtful numbers are answered here."""
        doubted = [self._doubted(ask) for ask in asks]
        fine = [ask for ask, error in zip(asks, doubted, strict=True) if error is None]
        answers = iter(await call(fine))
        return [next(answers) if error is None else error for error in doubted]

    async def _propose(self, ask: Ask, trial: Trial, poll: Poll, end: float) -> None:
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

    def _number(self, trial: Trial) -> None:
        """Choose the number to propose: a new one, or the last one while that may have won."""
        if not trial.open and not trial.held:
            try:
                self._highest = mint(self._highest, self._clock())
            except OverflowError as error:
                raise EngineRefused(f"no token is left: {error}") from None
            trial.propose(self._highest)

    def _clock(self) -> int:
        """Return the time in microseconds plus the token base, at which new numbers start."""
        return time.time_ns() // 1000 + self._base

    async def _judge(
        self, ask: Ask, trial: Trial, poll: Poll, began: float, *, told: bool = False
    ) -> Standing:
        """Return how a claim stands after a proposal, and withdraw a proposal that did not win.

        `told`: a node has announced that the lock is free. The others may not have known it yet, so
        the claim tries again soon.
        """
        self._highest = max(
            self._highest, poll.highest(self._clock() + AHEAD, self._clock() + 36_500 * AHEAD)
        )
        for node, key in poll.missing.items():
            self._meet(node, key)
        verdict = poll.verdict
        trial.dead = trial.dead or poll.dead
        if trial.dead:  # it was resigned in the meantime, perhaps before its number was chosen
            await self._free(ask, trial, set(range(self._size)), withdrawn=False)
            verdict = Verdict.OUTBID
        elif verdict is Verdict.WON:
            left = poll.left
            if self._now() - began < min(messages.UNDER_WAY, left):
                trial.held, trial.open, trial.waiting, trial.pause = True, False, False, 0.0
                return granted(trial.token, left)
            verdict = Verdict.OUTBID  # the answers were read too late to count
        if verdict is Verdict.UNREACHABLE:
            if poll.lacking:  # the nodes have the scripts now, so another proposal may win
                return poll.refused(trial, Verdict.OUTBID)
            error = poll.unreachable()
            if isinstance(error, EngineRefused):  # the client takes it that no node has the claim
                await self._withdraw(ask, trial, poll)
                trial.open = trial.held = False
            raise error
        await self._withdraw(ask, trial, poll)
        trial.open = trial.held = False
        if verdict is Verdict.STRANGERS:
            raise EngineRefused(
                f"{len(poll.strangers)} of {self._size} Redis nodes are not members of this set. "
                "If the set is new, run lockfast.engines.redlock.install(url) once. If the nodes "
                "lost their data, read the page on Redlock first."
            )
        trial.waiting = ask.queue
        if poll.elsewhere and poll.elsewhere not in trial.past and not trial.dead:
            trial.propose(poll.elsewhere, adopted=True)
            verdict = Verdict.SPLIT
        return poll.refused(trial, Verdict.SPLIT if told else verdict)

    async def _withdraw(self, ask: Ask, trial: Trial, poll: Poll) -> None:
        """Withdraw a proposal that did not win, and earlier ones that a node still has.

        A number that was adopted stays. The client may have read meanwhile, from the other engine,
        that it holds by it.
        """
        if not trial.adopted:
            await self._free(ask, trial, poll.loose, withdrawn=True)
        for node, token in poll.others.items():
            if token in trial.past:
                await self._free(ask, trial, {node}, withdrawn=True, token=token)

    def _lost(self, node: int) -> None:
        """Have the heart repeat the releases that a node may have missed."""
        self._chores.lost(node)
        self._transport.rouse()

    def _late(self, node: int, reply: object) -> None:
        """Process a late reply, which may say that a node is no member, or be about a join."""
        if type(reply) is list and reply and reply[0] == b"stranger":
            with suppress(Malformed), reading():
                self._meet(node, octets(reply[1]))
        else:
            self._chores.hear(node, reply)

    def _meet(self, node: int, key: bytes) -> None:
        """Have the heart let a node join that is no member. It has no waiters: listen elsewhere."""
        self._chores.met(node, key)
        self._deaf[self._transport.nodes[node]] = self._now() + DEAF
        self._transport.rouse()

    async def _free(
        self, ask: Ask, trial: Trial, nodes: set[int], *, withdrawn: bool, token: int = 0
    ) -> None:
        """Withdraw a proposal from nodes that have or may have accepted it. Await no answers."""
        if nodes:
            token = token or trial.token
            packet = messages.resign(ask.shape.name, ask.id, token, withdrawn=withdrawn)
            requests = [packet if node in nodes else None for node in range(self._size)]
            await self._transport.scatter(requests, 1, self._now(), None)
