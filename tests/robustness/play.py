"""A play: a history that is right by construction, from a small model of clients and an engine.

It is what the checkers and the report are tried on. Everything is drawn from a seed.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from tests.robustness.checkers.writes import Applied
from tests.robustness.history import Kind, Outcome, Record

TTL = 1.0
LATE = 0.02  # seconds that a message takes at most
SIZES = {  # capacities and weights
    "register:0": ((1, 1),),
    "register:1": ((1, 1),),
    "rwlock:0": ((9, 1), (9, 1), (9, 9)),
    "semaphore:0": ((3, 1), (8, 1), (8, 4)),
}


@dataclass(eq=False)
class Claim:
    """One acquisition, from the ask to the end."""

    client: str
    name: str
    id: str
    weight: int
    capacity: int
    asked: float
    ticket: int = 0
    granted: float = 0.0
    until: float = 0.0


@dataclass
class Play:
    """Clients who take, write and give back. Some are paused for too long, some die."""

    seed: int
    clients: int = 4
    pauses: float = 0.05
    deaths: float = 0.03
    doubts: float = 0.05
    """How often an answer is lost."""
    history: list[Record] = field(default_factory=list)
    log: dict[str, list[Applied]] = field(default_factory=lambda: defaultdict(list))
    twin: dict[str, list[Applied]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        self._dice = random.Random(self.seed)  # noqa: S311  # no secret
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._count = itertools.count(1)
        self._tickets = itertools.count(100)
        self._queues: dict[str, list[Claim]] = defaultdict(list)
        self._marks: dict[str, tuple[int, str]] = defaultdict(lambda: (0, ""))
        self.now = 0.0

    def run(self, acquisitions: int) -> Play:
        """Play until there were so many."""
        self._left = acquisitions
        for number in range(self.clients):
            self._in(0.01 * number, partial(self._ask, f"client{number}.1"))
        while self._agenda:
            self.now, _, act = heapq.heappop(self._agenda)
            act()
        self.history.sort(key=lambda record: (record.began, record.ended))
        return self

    def _in(self, seconds: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._agenda, (self.now + seconds, next(self._count), act))

    def _soon(self, act: Callable[[], object]) -> None:
        self._in(self._dice.uniform(0.001, LATE), act)

    # --- the engine ---------------------------------------------------------------------------

    def _claim(self, claim: Claim) -> None:
        claim.ticket = next(self._tickets)
        self._queues[claim.name].append(claim)
        self._grant(claim.name)

    def _grant(self, name: str) -> None:
        weight = 0
        for claim in self._queues[name]:
            weight += claim.weight
            if weight > claim.capacity:
                break
            if not claim.granted:
                claim.granted = self.now
                claim.until = self.now + 0.98 * TTL
                self._in(TTL, partial(self._remove, claim))
                self._soon(partial(self._told, claim))

    def _remove(self, claim: Claim) -> bool:
        queue = self._queues[claim.name]
        if claim not in queue:
            return False
        queue.remove(claim)
        self._grant(claim.name)
        return True

    # --- the clients --------------------------------------------------------------------------

    def _ask(self, client: str) -> None:
        if self._left <= 0:
            return
        self._left -= 1
        name = self._dice.choice(sorted(SIZES))
        capacity, weight = self._dice.choice(SIZES[name])
        claim = Claim(client, name, f"id{next(self._count)}", weight, capacity, self.now)
        self._soon(partial(self._claim, claim))

    def _told(self, claim: Claim) -> None:
        self._record(claim, Kind.ACQUIRE, claim.asked, Outcome.OK)
        dice = self._dice.random()
        if dice < self.deaths:
            life, number = claim.client.split(".")
            self._in(0.3, partial(self._ask, f"{life}.{int(number) + 1}"))
            return
        pause = self._dice.uniform(0.5, 2.5) if dice < self.deaths + self.pauses else 0.0
        if pause:
            self.history.append(
                Record(
                    *("faults", Kind.FAULT, "pause-client", self.now, self.now + pause, Outcome.OK),
                    value=f"paused {claim.client}",
                    extra={"breaks": "pause"},
                )
            )
        writes = self._dice.randint(0, 3) if claim.weight == claim.capacity else 0
        self._in(pause + 0.01, partial(self._work, claim, writes))

    def _work(self, claim: Claim, writes: int) -> None:
        if self.now >= claim.until:
            self._record(claim, Kind.LOST, self.now, Outcome.OK)
        began = self.now
        if writes:
            for fenced in (False, True):
                value = f"{claim.client}:{claim.id}:{writes}"
                self._soon(partial(self._write, claim, began, value, fenced=fenced))
            self._in(3 * LATE, partial(self._work, claim, writes - 1))
        else:
            self._soon(partial(self._release, claim, began))

    def _write(self, claim: Claim, began: float, value: str, *, fenced: bool) -> None:
        show = (claim.ticket, claim.id)
        mark = self._marks[claim.name]
        fine = not fenced or show[0] > mark[0] or show == mark
        if fine:
            if fenced:
                self._marks[claim.name] = show
            log = (self.log if fenced else self.twin)[claim.name]
            log.append((*show, value, log[-1][2] if log else ""))
        outcome = self._outcome(fine=fine)
        self._soon(
            partial(self._record, claim, Kind.WRITE, began, outcome, value=value, fenced=fenced)
        )

    def _release(self, claim: Claim, began: float) -> None:
        outcome = self._outcome(fine=self._remove(claim))
        self._soon(partial(self._record, claim, Kind.RELEASE, began, outcome))
        self._in(self._dice.uniform(LATE, 0.2), partial(self._ask, claim.client))

    def _outcome(self, *, fine: bool) -> Outcome:
        if self._dice.random() < self.doubts:
            return Outcome.UNKNOWN
        return Outcome.OK if fine else Outcome.NO

    def _record(  # noqa: PLR0913  # the parts of a record
        self,
        claim: Claim,
        kind: Kind,
        began: float,
        outcome: Outcome,
        *,
        value: str = "",
        fenced: bool = True,
    ) -> None:
        self.history.append(
            Record(
                *(claim.client, kind, claim.name, began, self.now, outcome),
                token=claim.ticket,
                id=claim.id,
                value=value,
                weight=claim.weight,
                capacity=claim.capacity,
                until=claim.until,
                fenced=fenced,
            )
        )
