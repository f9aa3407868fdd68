"""The replies to requests about claims: each is sent when the answers to all claims are there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from lockfast.engines.remote.messages import (
    Break,
    Claim,
    Fault,
    Gone,
    Renew,
    Reply,
    Resign,
    Said,
    Stood,
)
from lockfast.port import CLIENT, Standing
from lockfast.service.caller import Caller
from lockfast.service.entry import Answer
from lockfast.service.figures import Figures, outcome
from lockfast.service.kept import KeptClaims
from lockfast.service.replies import fault, stood
from lockfast.service.rights import INSPECT, Rights
from lockfast.service.watch import Watch

Time = Callable[[str], float | None]


class Client(Protocol):
    """The connection that has sent the request."""

    client: str
    """The prefix of its ids. Empty: other clients may have ids with the same prefix."""
    ended: bool
    caller: Caller

    @property
    def kept(self) -> KeptClaims | None:
        """Its claims that end with the connection. None: those of HTTP requests never do."""
        ...

    def answer(self, reply: Reply) -> None:
        """Send the reply to a request."""


class Standings:
    """Collects the answers to a `claim` or `renew`."""

    __slots__ = (
        "_asks",
        "_client",
        "_faults",
        "_figures",
        "_kind",
        "_left",
        "_n",
        "_results",
        "_time",
        "_watch",
    )

    def __init__(
        self, client: Client, request: Claim | Renew, time: Time, figures: Figures, watch: Watch
    ) -> None:
        """Wait for an answer to each claim. `time`: the engine's time, by name."""
        self._watch = watch if watch.wants(client.caller) else None
        self._client = client
        self._figures = figures
        self._kind = "claim" if isinstance(request, Claim) else "renew"
        asks = request.asks
        self._n = request.n
        self._asks = asks
        self._time = time
        self._left = len(asks)
        self._results: list[Stood | None] = [None] * len(asks)
        self._faults: list[Fault] = []

    def unwanted(self) -> bool:
        """Return whether the client has left. It asks again on another connection."""
        return self._client.ended

    def put(self, at: int, answer: Answer) -> None:
        """Take the answer to one claim."""
        if isinstance(answer, Standing):
            rights = self._client.caller.rights
            shown = answer if rights is None else self._shown(at, answer, rights)
            self._results[at] = stood(shown)
        elif isinstance(answer, Exception):
            self._faults.append(fault(answer, at))
        if self._watch is not None:
            self._watch.stood(
                self._client.caller, self._asks[at], answer, new=self._kind == "claim"
            )
        self._figures.claims.counts[self._kind, outcome(answer)] += 1
        self._left -= 1
        if not self._left:
            self._figures.answered(self._kind, self._faults)
            self._client.answer(Said(self._n, self._results, self._now(), self._faults))

    def _shown(self, at: int, standing: Standing, rights: Rights) -> Standing:
        """Return a standing without the claim that blocks it, unless that is the client's own one,
        or the client may see it.
        """
        head = standing.blocker
        if head is None:
            return standing
        asked = self._asks[at]
        if head.id[:CLIENT] == self._client.client or rights.may(INSPECT, asked.name):
            return standing
        return standing._replace(blocker=None)

    def _now(self) -> float | None:
        """Return the engine's time. If its servers have several clocks, return the earliest time:
        a client that takes the time for too early only makes fewer claims.
        """
        time = self._time
        if len(self._asks) == 1:
            return time(self._asks[0].name)
        known = [told for asked in self._asks if (told := time(asked.name)) is not None]
        return min(known, default=None)


class Removals:
    """Collects the answers to a `resign` or `break`."""

    __slots__ = (
        "_asks", "_client", "_faults", "_figures", "_kind", "_left", "_n", "_results", "_watch",
    )  # fmt: skip

    def __init__(
        self, client: Client, request: Resign | Break, figures: Figures, watch: Watch
    ) -> None:
        """Wait for an answer to each claim."""
        self._client = client
        self._figures = figures
        self._watch = watch if watch.wants(client.caller) else None
        self._asks = request.asks
        self._kind = "break" if isinstance(request, Break) else "resign"
        self._n = request.n
        self._left = len(request.asks)
        self._results = [False] * self._left
        self._faults: list[Fault] = []

    def unwanted(self) -> bool:
        """Return False: what was given up is to end, whether or not its client has left."""
        return False

    def put(self, at: int, answer: Answer) -> None:
        """Take the answer to one claim."""
        if isinstance(answer, Exception):
            self._faults.append(fault(answer, at))
        else:
            self._results[at] = answer is True
            if self._watch is not None:
                asked, broken = self._asks[at], self._kind == "break"
                self._watch.removed(self._client.caller, asked, answer, broken=broken)
        self._figures.claims.counts[self._kind, outcome(answer)] += 1
        self._left -= 1
        if not self._left:
            self._figures.answered(self._kind, self._faults)
            self._client.answer(Gone(self._n, self._results, self._faults))
