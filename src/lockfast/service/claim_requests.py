"""The requests about claims: claim, renew, resign and break."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from lockfast.engines.remote.messages import Break, Claim, Renew, Resign
from lockfast.errors import EngineRefused
from lockfast.port import LONGEST_WAIT, TOMB_MARGIN, Ask, Engine, Standing
from lockfast.runtime.base import Clock
from lockfast.service.answers import Client, Removals, Standings
from lockfast.service.attaching import attached
from lockfast.service.collector import SIZE, Collector
from lockfast.service.engine_time import EngineTime
from lockfast.service.entry import Answers, Entry
from lockfast.service.figures import CLAIMS, Figures
from lockfast.service.heart import Heart
from lockfast.service.kept import KeptClaims, Refreshed, Removed, Told
from lockfast.service.overload import Load
from lockfast.service.requests import ask_of, deadline_of, departs
from lockfast.service.rights import CLAIM
from lockfast.service.tasks import Tasks
from lockfast.service.tracing import Traced
from lockfast.service.watch import Watch

LONGEST_TOMB = 3600.0
"""Seconds for which a client can make the engine store a tombstone. An honest one needs a few. But
a replica that was paused reads late what the engine has told, and takes its time for an earlier
one. The tombstone of a claim must not end before copies of the claim do."""
Then = Callable[[Entry, float], None]


class ClaimRequests:
    """Passes requests about claims on to the engine."""

    def __init__(  # noqa: PLR0913, PLR0917  # the parts of a replica that it uses
        self,
        engine: Engine,
        heart: Heart,
        tasks: Tasks,
        clock: Clock,
        figures: Figures,
        watch: Watch,
        load: Load,
    ) -> None:
        """Begin without requests."""
        self._load = load
        self._engine = engine
        self.departs = hasattr(engine, "attach") and hasattr(engine, "depart")
        """Whether the engine can remove the claims of a connection that has ended."""
        self._watch = watch
        self._heart = heart
        self._figures = figures
        self._time = EngineTime(engine, tasks)
        self._now = clock
        size = min(getattr(engine, "batch", SIZE), SIZE)
        self._claims = Collector(self._claim_all, _name, tasks, clock, size)
        # A copy of one claim that is in doubt says nothing about another one, so apart.
        self._resignations = {
            doubt: Collector(partial(self._resign, doubt=doubt), _id, tasks, clock, size)
            for doubt in (False, True)
        }
        self._departures = Collector(self._depart, _id, tasks, clock, size)

    def time(self, name: str) -> float | None:
        """Return the time of the engine's server that has a name, if it is known."""
        return self._engine.time(name)

    def waiting(self) -> int:
        """Return how many claims wait for the engine."""
        return self._claims.waiting + len(self._time)

    def claim(self, client: Client, epoch: int, request: Claim) -> None:
        """Make claims, unless the replica is overloaded."""
        answers: Answers = Standings(client, request, self._engine.time, self._figures, self._watch)
        if self._figures.spans is not None:
            answers = Traced(answers, request.asks, "claim", self._figures.spans)
        if self._load.full():
            error = self._load.refuse(CLAIMS)
            for at in range(len(request.asks)):
                answers.put(at, error)
            return
        check = self._check(client, new=True)
        for entry in self._entries(request, epoch, answers, check, client.kept):
            self._timed(entry, self._claim)

    def renew(self, client: Client, epoch: int, request: Renew) -> None:
        """Renew claims."""
        answers = Standings(client, request, self._engine.time, self._figures, self._watch)
        check = self._check(client, new=False)
        for entry in self._entries(request, epoch, answers, check, client.kept):
            entry.urgent = request.urgent
            if not entry.ask.departs or request.urgent or self._forward(client, entry):
                self._heart.renew(entry)

    def _forward(self, client: Client, entry: Entry) -> bool:
        """Return whether to renew a claim in the engine. Answer it here if it is a lease that the
        engine keeps for long enough.
        """
        kept, ask, told = client.kept, entry.ask, entry.answers
        if kept is None or not isinstance(told, Told):
            return True
        known = kept.recall(ask, entry.arrived)
        if known is None:
            return True
        told.answers.put(entry.at, known)
        # Its client does not wait for the engine: an engine that is slow for a moment would cost
        # leases that it keeps for much longer.
        entry.answers = Told(kept, ask, entry.arrived, Refreshed(kept, ask))
        return kept.stale(ask, entry.arrived)

    def resign(self, client: Client, epoch: int, request: Resign) -> None:
        """Remove claims."""
        answers: Answers = Removals(client, request, self._figures, self._watch)
        if self._figures.spans is not None:
            answers = Traced(answers, request.asks, "resign", self._figures.spans)
        rights = client.caller.rights
        for entry in self._entries(request, epoch, answers):  # always: it takes nothing
            if client.kept:
                entry.answers = Removed(client.kept, entry.ask, answers)
            # A tombstone takes room in the engine. Whoever may not claim has no copies under way.
            if request.doubt and (rights is None or rights.may(CLAIM, entry.ask.shape.name)):
                self._timed(entry, self._bury)
            else:
                self._resignations[False].add(entry)

    def depart(self, entry: Entry) -> None:
        """Remove a claim whose connection has ended, unless it belongs to a later one."""
        self._timed(entry, self._bury_departed)

    def break_(self, client: Client, epoch: int, request: Break) -> None:
        """Remove claims of other clients. Nobody here knows until when copies of them may come."""
        answers = Removals(client, request, self._figures, self._watch)
        check = partial(self._watch.break_, client.caller)
        for entry in self._entries(request, epoch, answers, check):
            entry.ask.fixed = None
            self._timed(entry, self._bury)

    def _check(self, client: Client, *, new: bool) -> Callable[[Ask], None] | None:
        """Return what checks the claims of a client, or None if nothing has to."""
        caller = client.caller
        return partial(self._watch.claim, caller, new=new) if self._watch.checks(caller) else None

    def _entries(
        self,
        request: Claim | Renew | Resign | Break,
        epoch: int,
        answers: Answers,
        check: Callable[[Ask], None] | None = None,
        kept: KeptClaims | None = None,
    ) -> list[Entry]:
        """Return the claims of a request. Those that cannot be claims, or that are denied by
        `check`, are answered here. `kept`: those of the connection that end with it.
        """
        now = self._now()
        deadline = deadline_of(request.within, now)
        entries: list[Entry] = []
        for at, asked in enumerate(request.asks):
            try:
                ask = ask_of(asked, epoch)
                if check is not None:
                    check(ask)
            except ValueError as error:
                answers.put(at, EngineRefused(str(error)))
            except EngineRefused as error:
                answers.put(at, error)
            else:
                entry = Entry(ask, now, deadline, answers, at)
                if kept is not None and self.departs and asked.on_disconnect:
                    ask.departs = departs(asked)
                    if ask.departs:
                        kept.expect(ask)
                        entry.answers = Told(kept, ask, now, answers)
                entries.append(entry)
        return entries

    def _timed(self, entry: Entry, then: Then) -> None:
        """Call `then` with a claim and the engine's time, when the time is known."""
        told = self._engine.time(entry.ask.shape.name)
        if told is not None:
            then(entry, told)
        else:
            self._time.learn(entry.ask.shape.name, partial(self._learned, entry, then))

    def _learned(self, entry: Entry, then: Then, error: Exception | None) -> None:
        if error is None:
            self._timed(entry, then)
        else:
            entry.put(error)

    def _claim(self, entry: Entry, told: float) -> None:
        fixed = entry.ask.fixed
        if fixed is None:  # the client does not know the engine's time yet, and learns it now
            entry.put(None)
            return
        self._fix(entry.ask, min(fixed, told + LONGEST_WAIT + TOMB_MARGIN), told)
        self._claims.add(entry)

    def _bury(self, entry: Entry, told: float) -> None:
        """Remove a claim, and have the engine refuse copies of it that come later."""
        self._outlast(entry.ask, told)
        self._resignations[True].add(entry)

    def _bury_departed(self, entry: Entry, told: float) -> None:
        self._outlast(entry.ask, told)
        self._departures.add(entry)

    def _outlast(self, ask: Ask, told: float) -> None:
        """Set until when the engine must refuse copies of a claim."""
        fixed = told + LONGEST_WAIT if ask.fixed is None else ask.fixed
        self._fix(ask, min(fixed, told + LONGEST_TOMB), told)

    def _fix(self, ask: Ask, fixed: float, told: float) -> None:
        """Set until when the engine may apply a claim, or must remember that it may not."""
        ask.fixed = fixed
        ask.not_after = self._now() + min(fixed - told, ask.shape.wait_ttl)

    async def _claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> Sequence[Standing | Exception | None]:
        call = partial(self._claimed, deadline=deadline)
        return await attached(self._engine, asks, deadline, self._figures, call)

    async def _claimed(
        self, asks: Sequence[Ask], deadline: float
    ) -> Sequence[Standing | Exception | None]:
        if len(asks) == 1:
            claim = self._engine.claim(asks[0], deadline)
            return [await self._figures.measured("claim", 1, claim)]
        claims = self._engine.claim_all(asks, deadline)
        return await self._figures.measured("claim", len(asks), claims)

    def _depart(
        self, asks: Sequence[Ask], deadline: float
    ) -> Coroutine[Any, Any, list[bool | Exception]]:
        # Claims of an engine that has no such method are not kept.
        departure = self._engine.depart(asks, deadline)  # type: ignore[attr-defined]
        return self._figures.measured("depart", len(asks), departure)

    def _resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> Coroutine[Any, Any, list[bool | Exception]]:
        resignation = self._engine.resign(asks, deadline, doubt=doubt)
        return self._figures.measured("resign", len(asks), resignation)


def _name(ask: Ask) -> str:
    return ask.shape.name


def _id(ask: Ask) -> str:
    return ask.id
