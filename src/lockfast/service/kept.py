"""The claims of one connection that end with it, and what the engine has said of them last.

Their client renews them more often than an engine should have to hear of: it counts on each for
no longer than the seconds after which it would end with the connection. So the replica answers most
of these renewals itself. It renews nothing by itself: each renewal that it sends comes from one of
the client.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lockfast.core.validity import DRIFT
from lockfast.port import Ask, Standing, Wake
from lockfast.service.caller import Caller
from lockfast.service.entry import Answer, Answers
from lockfast.service.hearing import frame_of

MOST = 10_000  # claims of one connection. What is beyond is forwarded, and ends with its ttl
ENOUGH = 2 / 3  # of a ttl: the engine is asked again if a claim has less left


class Kept:
    """A claim that is in the engine, or that may be."""

    __slots__ = ("ask", "asking", "departs", "standing", "until")

    def __init__(self, ask: Ask) -> None:
        """Know nothing of it yet."""
        self.ask = Ask(ask.id, ask.shape, ask.queue, ask.not_after, b"")
        self.ask.epoch, self.ask.fixed = ask.epoch, ask.fixed
        self.departs = ask.departs
        self.standing: Standing | None = None
        """What the engine has said, after it knew that the claim belongs to this connection."""
        self.until = 0.0
        """The engine keeps it until then, by the local clock."""
        self.asking = False
        """Whether the engine is being asked, although its client was answered from here."""


class Remover(Protocol):
    """Removes claims whose connection has ended."""

    room: int
    """How many more claims may be kept, of all connections."""

    def begin(self, claims: KeptClaims) -> None:
        """Remove the claims of a connection that has ended, each when it is time."""


class KeptClaims:
    """The claims of one connection."""

    caller: Caller
    """Who was connected. Set at the end."""

    def __init__(self, remover: Remover, wake: Callable[[bytes], None]) -> None:
        """Begin without claims. `wake` sends an encoded wake to the client."""
        self.ended = False
        self.wake = wake
        self._remover = remover
        self._claims: dict[tuple[str, str], Kept] = {}

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._claims)

    def all(self) -> list[Kept]:
        """Return all claims."""
        return list(self._claims.values())

    def expect(self, ask: Ask) -> None:
        """Note that a claim is about to be sent to the engine."""
        key = ask.id, ask.shape.name
        kept = self._claims.get(key)
        if kept is None:
            if self.ended or len(self._claims) >= MOST or self._remover.room <= 0:
                return
            self._remover.room -= 1
            kept = self._claims[key] = Kept(ask)
        kept.departs = max(kept.departs, ask.departs)

    def recall(self, ask: Ask, now: float) -> Standing | None:
        """Return the answer to a renewal, if the engine keeps the lease for long enough. A waiter
        may have been granted meanwhile, so only the engine knows.
        """
        kept = self._claims.get((ask.id, ask.shape.name))
        if kept is None or kept.standing is None:
            return None
        granted = kept.standing.granted and ask.granted
        if not granted or kept.until - now <= ask.departs:
            return None
        return kept.standing._replace(left=ask.departs)

    def stale(self, ask: Ask, now: float) -> bool:
        """Return whether to ask the engine about a lease, and note that it is being asked."""
        kept = self._claims[ask.id, ask.shape.name]
        if kept.asking or kept.until - now > ENOUGH * ask.shape.ttl:
            return False
        kept.asking = True
        return True

    def told(self, ask: Ask, arrived: float, answer: Answer) -> Answer:
        """Take the engine's answer about a claim, and return what its client may count on.
        `arrived`: when the request came, which was before the engine was asked.
        """
        key = ask.id, ask.shape.name
        kept = self._claims.get(key)
        if kept is not None:
            kept.asking = False
        if isinstance(answer, Exception):
            return answer
        if not isinstance(answer, Standing) or not answer.ticket:
            self.forget(ask)
            return answer
        if kept is not None:
            kept.standing = answer
            kept.until = arrived + answer.left * (1.0 - DRIFT)
            kept.ask.ticket, kept.ask.granted = answer.ticket, answer.granted
        return answer._replace(left=min(answer.left, ask.departs))

    def forget(self, ask: Ask) -> None:
        """Forget a claim that the engine does not have."""
        if self._claims.pop((ask.id, ask.shape.name), None) is not None:
            self._remover.room += 1

    def end(self, caller: Caller) -> None:
        """Note that the connection has ended."""
        self.ended = True
        self.caller = caller
        if self._claims:
            self._remover.begin(self)


class Told:
    """Takes the engine's answer about a claim or its renewal."""

    __slots__ = ("_arrived", "_ask", "_claims", "answers")

    def __init__(self, claims: KeptClaims, ask: Ask, arrived: float, answers: Answers) -> None:
        """Pass the answer on to `answers`."""
        self._claims, self._ask, self._arrived, self.answers = claims, ask, arrived, answers

    def unwanted(self) -> bool:
        """Return whether the client has left."""
        return self.answers.unwanted()

    def put(self, at: int, answer: Answer) -> None:
        """Take the answer."""
        self.answers.put(at, self._claims.told(self._ask, self._arrived, answer))


class Refreshed:
    """Takes the engine's answer about a lease whose client was answered already."""

    __slots__ = ("_ask", "_claims")

    def __init__(self, claims: KeptClaims, ask: Ask) -> None:
        """Wait for the answer."""
        self._claims = claims
        self._ask = ask

    def unwanted(self) -> bool:
        """Return whether the connection has ended."""
        return self._claims.ended

    def put(self, at: int, answer: Answer) -> None:  # noqa: ARG002  # there is one claim
        """Have the client ask again if the claim is gone. It was told otherwise just before."""
        if answer is None:
            self._claims.wake(frame_of(Wake(self._ask.id, granted=False)))


class Removed:
    """Takes the engine's answer about a resignation."""

    __slots__ = ("_answers", "_ask", "_claims")

    def __init__(self, claims: KeptClaims, ask: Ask, answers: Answers) -> None:
        """Pass the answer on."""
        self._claims, self._ask, self._answers = claims, ask, answers

    def unwanted(self) -> bool:
        """Return False: what was given up is to end, whether or not its client has left."""
        return self._answers.unwanted()

    def put(self, at: int, answer: Answer) -> None:
        """Take the answer."""
        if not isinstance(answer, Exception):
            self._claims.forget(self._ask)
        self._answers.put(at, answer)
