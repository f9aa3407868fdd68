"""Ways of building it that are broken, switched in for a while: each must break a rule in some run.

What the simulation cannot tell from the real thing, it does not check.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

from lockfast.claims import acquire, acquire_all, deadlock, release
from lockfast.claims.claim import Claim
from lockfast.claims.session import Session
from lockfast.claims.table import Table
from lockfast.core import queue as queue_model
from lockfast.core.queue import Member, Queues, _find, _standing
from lockfast.core.token import mint
from lockfast.core.validity import DRIFT
from lockfast.errors import StaleToken
from lockfast.guards import mark
from lockfast.guards.mark import Mark, Shown
from lockfast.port import Ask, Standing
from tests.robustness.simulation.remote import Remote
from tests.robustness.simulation.server import Request

_answered, _renewed = Table.answered, Table.renewed
_claim, _resign, _grant = Queues.claim, Queues.resign, Queues._grant
_remote_claim, _admit = Remote.claim, mark.admit


def answered_from_the_reply(
    self: Table,
    claim: Claim,
    sent: float,  # noqa: ARG001  # which it ignores
    standing: Standing | None,
    now: float,
) -> None:
    _answered(self, claim, now, standing, now)


def renewed_from_the_reply(
    self: Table,
    claims: Iterable[Claim],
    sent: float,  # noqa: ARG001  # which it ignores
    standings: Iterable[Standing | Exception | None],
    now: float,
) -> tuple[list[Claim], list[Claim]]:
    return _renewed(self, claims, now, standings, now)


def observe_the_whole_ttl(self: Claim, sent: float, left: float) -> None:  # noqa: ARG001  # the same
    self.until = max(self.until, sent + self.shape.ttl * (1.0 - DRIFT))
    self.worry = sent + self.shape.ttl / 2.0


def observe_without_drift(self: Claim, sent: float, left: float) -> None:
    self.until = max(self.until, sent + left)
    self.worry = sent + left / 2.0


def renew_and_resurrect(self: Queues, ask: Ask, now: float) -> Standing | None:
    queue = self._look(ask.shape.name, now)
    mine = _find(queue, ask.id)
    if mine is None:
        self.last = mint(self.last, int(now * 1e6))
        mine = Member(ask, self.last, 0.0, granted=not queue)
        queue.append(mine)
        self._queues[ask.shape.name] = queue
    mine.expires = max(mine.expires, now + mine.life)
    return _standing(queue, mine, now)


def resign_whoever_holds(self: Queues, ask: Ask, now: float, *, doubt: bool) -> bool:
    queue = self._look(ask.shape.name, now)
    return _resign(self, queue[0].ask if queue else ask, now, doubt=doubt)


def resign_without_tombstone(self: Queues, ask: Ask, now: float, *, doubt: bool) -> bool:  # noqa: ARG001  # which it ignores
    return _resign(self, ask, now, doubt=False)


def admit_by_token_alone(at_door: Mark | None, at: Shown) -> Mark:
    if at_door is not None and at.token < at_door.token:
        raise StaleToken(at.name, at.token, at_door.token)
    return at.seal


async def claim_then_mint(self: Remote, ask: Ask, deadline: float) -> Standing | None:
    standing = await _remote_claim(self, ask, deadline)
    if standing is None or not standing.granted:
        return standing
    (token,) = await self._call(Request("mint", (ask,)), deadline)
    assert isinstance(token, int)
    return standing._replace(ticket=token)


def look_through_a_filter(self: Queues, name: str, now: float) -> list[Member]:
    """Leave the expired out, and keep them. Those who are let in are so among the rest."""
    queue = _Filtered(self._queues.setdefault(name, []), now)
    self._grant(name, queue)
    return queue


def grant_and_keep_the_dead(self: Queues, name: str, queue: list[Member]) -> None:
    whole = self._queues.get(name, [])
    _grant(self, name, queue)
    self._queues[name] = whole


class _Filtered(list[Member]):
    """The live part of a queue; what is added or removed is so in the whole."""

    def __init__(self, whole: list[Member], now: float) -> None:
        super().__init__(m for m in whole if m.expires > now)
        self._whole = whole

    def append(self, member: Member) -> None:
        super().append(member)
        self._whole.append(member)

    def remove(self, member: Member) -> None:
        super().remove(member)
        self._whole.remove(member)


def claim_through_a_filter(self: Queues, ask: Ask, now: float) -> Standing | None:
    whole = self._queues.setdefault(ask.shape.name, [])
    standing = _claim(self, ask, now)
    self._queues[ask.shape.name] = whole
    return standing


def renew_with_the_clients_life(self: Queues, ask: Ask, now: float) -> Standing | None:
    queue = self._look(ask.shape.name, now)
    mine = _find(queue, ask.id)
    if mine is None:
        return None
    mine.expires = now + ask.shape.ttl / 4.0  # shorter than what was promised
    return _standing(queue, mine, now)


def give_nothing_up(session: Session, claim: Claim) -> None:
    """Leave without a word."""


def grant_to_the_last(self: Queues, name: str, queue: list[Member]) -> None:
    """Let in whoever came last."""
    if not queue:
        self._queues.pop(name, None)
    elif not any(m.granted for m in queue):
        queue[-1].granted = True


def grant_to_whoever_fits(self: Queues, name: str, queue: list[Member]) -> None:
    """Let a small claim overtake a large one."""
    if not queue:
        self._queues.pop(name, None)
    weight = sum(m.shape.weight for m in queue if m.granted)
    for member in queue:
        if not member.granted and weight + member.shape.weight <= member.shape.capacity:
            weight += member.shape.weight
            member.granted = True


def grant_by_heads(self: Queues, name: str, queue: list[Member]) -> None:
    """Count claims, and not what they weigh."""
    if not queue:
        self._queues.pop(name, None)
    for member in queue[: queue[0].shape.capacity if queue else 0]:
        member.granted = True


def grant_by_the_heads_capacity(self: Queues, name: str, queue: list[Member]) -> None:
    """Judge every claim by the capacity of the first."""
    if not queue:
        self._queues.pop(name, None)
    weight = 0
    for member in queue:
        weight += member.shape.weight
        if weight > queue[0].shape.capacity:
            break
        member.granted = True


def admit_readers_as_writers(at_door: Mark | None, at: Shown) -> Mark:
    if at.shared:
        at = at._replace(floor=at.token, shared=False)
    return _admit(at_door, at)


def admit_readers_without_a_seal(at_door: Mark | None, at: Shown) -> Mark:
    mark_after = _admit(at_door, at)
    return (at_door or Mark(0, "")) if at.shared else mark_after


def linger_not(self: Table, claim: Claim) -> None:
    """Give it back at once, however long it was to be kept."""
    with self._lock:
        self._leave(claim, claim.until)
        self._resign_at = 0.0
        self.rouse()


async def look_for_no_circle(session: Session, claim: Claim, *, patient: bool) -> None:
    """Wait for ever."""


Patch = tuple[object, str, Callable[..., Any]]
MUTANTS: dict[str, Sequence[Patch]] = {
    "validity from the reply": (
        (Table, "answered", answered_from_the_reply),
        (Table, "renewed", renewed_from_the_reply),
    ),
    "validity of a whole ttl": ((Claim, "observe", observe_the_whole_ttl),),
    "validity without drift": ((Claim, "observe", observe_without_drift),),
    "renewal that resurrects": ((Queues, "renew", renew_and_resurrect),),
    "renewal that shortens": ((Queues, "renew", renew_with_the_clients_life),),
    "release without owner check": ((Queues, "resign", resign_whoever_holds),),
    "no tombstone in doubt": ((Queues, "resign", resign_without_tombstone),),
    "mark without the claim's id": ((mark, "admit", admit_by_token_alone),),
    "token minted after the grant": ((Remote, "claim", claim_then_mint),),
    "expiry as a filter": (
        (Queues, "_look", look_through_a_filter),
        (Queues, "_grant", grant_and_keep_the_dead),
        (Queues, "claim", claim_through_a_filter),
    ),
    "claim not given up": (
        (acquire, "give_up", give_nothing_up),
        (release, "give_up", give_nothing_up),
    ),
    "last come, first served": ((Queues, "_grant", grant_to_the_last),),
    "small claims overtake": ((Queues, "_grant", grant_to_whoever_fits),),
    "permits counted by heads": ((Queues, "_grant", grant_by_heads),),
    "kinds not compared": ((queue_model, "_agree", lambda *_: None),),
    "the head's capacity for all": ((Queues, "_grant", grant_by_the_heads_capacity),),
    "readers that raise the mark": ((mark, "admit", admit_readers_as_writers),),
    "readers that do not seal": ((mark, "admit", admit_readers_without_a_seal),),
    "all taken when one is": ((acquire_all, "all", any),),
    "kept not long enough": ((Table, "linger", linger_not),),
    "deadlock not looked for": ((deadlock, "check", look_for_no_circle),),
}


@contextmanager
def switched_in(name: str) -> Iterator[None]:
    """Build it that way for a while."""
    patches = [patch.object(*each, create=hasattr(builtins, each[1])) for each in MUTANTS[name]]
    for each in patches:
        each.start()
    try:
        yield
    finally:
        for each in patches:
            each.stop()
