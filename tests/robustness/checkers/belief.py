"""Belief: from when until when each client thought that it held."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from tests.robustness.history import Kind, Outcome, Record


class Belief(NamedTuple):
    """One client's belief in one grant."""

    name: str
    client: str
    id: str
    token: int
    weight: int
    capacity: int
    began: float
    ended: float


def beliefs(history: Iterable[Record]) -> dict[str, list[Belief]]:
    """Give the beliefs in each name. One ends when the release begins, when the client was told
    of the loss, or when the validity it was last told of ran out.
    """
    open_: dict[str, Record] = {}
    found: dict[str, list[Belief]] = defaultdict(list)

    def close(grant: Record, ended: float) -> None:
        end = min(ended, grant.until) if grant.until else ended
        found[grant.name].append(
            Belief(
                grant.name,
                grant.client,
                grant.id,
                grant.token,
                grant.weight,
                grant.capacity,
                grant.ended,
                max(end, grant.ended),
            )
        )

    for record in sorted(history, key=lambda each: each.ended):
        if record.kind is Kind.ACQUIRE and record.outcome is Outcome.OK:
            open_[record.id] = record
        elif record.kind in (Kind.RELEASE, Kind.LOST) and record.id in open_:
            grant = open_.pop(record.id)
            # The release's record knows the validity that renewals had brought by then.
            until = max(record.until, grant.until) if record.until else 0.0
            ended = record.began if record.kind is Kind.RELEASE else record.ended
            close(replace(grant, until=until), ended)
    for grant in open_.values():
        close(grant, grant.until or grant.ended)
    return found


def overlaps(history: Iterable[Record]) -> list[str]:
    """Tell every pair of exclusive believers that overlapped. Counted always; wrong only where
    neither pause nor clock faults ran.
    """
    told = []
    for name, held in beliefs(history).items():
        exclusive = sorted(
            (each for each in held if each.weight == each.capacity), key=lambda each: each.began
        )
        latest: Belief | None = None
        for belief in exclusive:
            if latest is not None and belief.began < latest.ended:
                seconds = min(latest.ended, belief.ended) - belief.began
                told.append(
                    f"{name}: {latest.client} (token {latest.token}) and {belief.client} "
                    f"(token {belief.token}) for {seconds:.3f} s"
                )
            if latest is None or belief.ended > latest.ended:
                latest = belief
    return told
