"""Rightful holders: whoever holds, and knows it, is refused by no guard."""

from __future__ import annotations

import math
from collections.abc import Iterable

from lockfast import Loss
from tests.robustness.checkers.violation import Violation
from tests.robustness.history import Kind, Outcome, Record

_TOLD = (Kind.ACQUIRE, Kind.RELEASE, Kind.LOST)


def rightful(history: Iterable[Record]) -> list[Violation]:
    """No seal or write is refused while its holder's validity is still running.

    A pause is no excuse: the refusal was told before the validity had ended, so the engine had let
    nobody else in by then. But a write that begins after its holder was told that the engine no
    longer has the lease is one of somebody who knows better. On ZooKeeper, a client that moved to
    another replica of the service is told that early. A loss that the refusal itself has told
    (`FENCED`) excuses nothing, nor one that is told while the write is under way.
    """
    history = list(history)
    asked: dict[str, float] = {}
    until: dict[str, float] = {}
    for record in history:
        if record.kind in _TOLD and record.id:
            asked[record.id] = min(record.began, asked.get(record.id, record.began))
            until[record.id] = max(record.until, until.get(record.id, 0.0))
    told = {
        record.id: record.ended
        for record in history
        if record.kind is Kind.LOST and record.value == Loss.GONE.name
    }
    return [
        Violation(
            "rightful",
            f"{record.name}: {record.client} was refused with token {record.token}, and held it "
            f"for {until[record.id] - record.ended:.3f} s more",
            asked[record.id],
            record.ended,
        )
        for record in history
        if record.kind in (Kind.WRITE, Kind.SEAL)
        and record.fenced
        and record.outcome is Outcome.NO
        and record.ended < until.get(record.id, 0.0)
        and record.began < told.get(record.id, math.inf)
    ]
