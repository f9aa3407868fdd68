"""Hears what the clients of this process do with locks: more than two scans can tell."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator

from lockfast.claims import observer, payload
from lockfast.claims.claim import Claim
from lockfast.claims.observer import Watched
from lockfast.errors import Loss
from lockfast.port import Shape
from lockfast.show.claims import bearer_of
from lockfast.web.history import BROKEN, GONE, GRANTED, LOST, MOST, REFUSED, RELEASED, Event

Heard = tuple[str, float, str, Claim | None, str]
ENDS = {Loss.RELEASED: RELEASED, None: GONE}


class Onlooker:
    """A watcher of `claims.observer`, for the clients of one engine. Any thread may call it."""

    def __init__(self, session: Watched, *, alone: bool) -> None:
        """Watch from now on. `session`: one of the engine. `alone`: whether the dashboard shows no
        other engine.
        """
        self._session = session
        self._alone = alone
        self._heard: deque[Heard] = deque(maxlen=MOST)
        observer.replace(None, self)

    def heard(self) -> Iterator[Event]:
        """Yield what was heard since the last call."""
        while self._heard:
            kind, at, name, claim, why = self._heard.popleft()
            if claim is None:
                yield Event(kind, at, name)
            else:
                who = payload.read(claim.ask.payload)
                yield Event(
                    kind,
                    at,
                    name,
                    claim.id,
                    claim.ticket,
                    claim.shape.exclusive,
                    f"{bearer_of(who)} on {who.host}",
                    why=why,
                )

    def close(self) -> None:
        """Stop watching."""
        observer.replace(self, None)

    def trace(self) -> str:
        """Return no span: that is telemetry's."""
        return ""

    def granted(self, session: Watched, claim: Claim, began: float) -> Hold:  # noqa: ARG002  # a watcher's
        """Note a grant."""
        hold = Hold(self, claim if self._same(session) else None)
        hold.tell(GRANTED)
        return hold

    def failed(self, session: Watched, shape: Shape, began: float, error: BaseException) -> None:
        """Note nothing: the scans tell who does not wait any more."""

    def refused(self, session: Watched | None, name: str, template: str) -> None:  # noqa: ARG002  # a watcher's
        """Note a write that a guard has refused. Without a session, the lease is in another
        process, and its engine is not known.
        """
        if self._alone if session is None else self._same(session):
            self.note(REFUSED, name)

    def note(self, kind: str, name: str, claim: Claim | None = None, why: str = "") -> None:
        """Note that something has happened just now."""
        self._heard.append((kind, time.time(), name, claim, why))

    def _same(self, session: Watched) -> bool:
        """Return whether a session is one of this engine."""
        one, other = self._session.target, session.target
        if one is None or other is None:
            return session is self._session
        return (one.scheme, one.hosts, one.path) == (other.scheme, other.hosts, other.path)


class Hold:
    """A grant, of which the end will be noted. Without a claim, nothing is."""

    __slots__ = ("_claim", "_onlooker")

    def __init__(self, onlooker: Onlooker, claim: Claim | None) -> None:
        """Begin with the grant."""
        self._onlooker = onlooker
        self._claim = claim

    def tell(self, kind: str, why: str = "") -> None:
        """Note an event of this claim."""
        if self._claim is not None:
            self._onlooker.note(kind, self._claim.shape.name, self._claim, why)

    def ended(self, loss: Loss | None) -> None:
        """Note the end. The parent process notes that of its own (`FOREIGN`)."""
        claim, self._claim = self._claim, self._claim if loss is Loss.FOREIGN else None
        if claim is None or loss is Loss.FOREIGN:
            return
        if loss in ENDS:
            self._onlooker.note(ENDS[loss], claim.shape.name, claim)
        else:
            kind = LOST if claim.broken is None else BROKEN
            self._onlooker.note(kind, claim.shape.name, claim, claim.why())
