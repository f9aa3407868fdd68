"""Rightful holders: whoever holds, and knows it, is refused by no guard."""

from __future__ import annotations

from collections.abc import Iterable

from tests.robustness.checkers.violation import Violation
from tests.robustness.history import Kind, Outcome, Record

_TOLD = (Kind.ACQUIRE, Kind.RELEASE, Kind.LOST)


def rightful(history: Iterable[Record]) -> list[Violation]:
    """No seal or write is refused while its holder's validity is still running.

    A pause is no excuse: the refusal was told before the validity had ended, so the engine had let
    nobody else in by then. But who was told of the loss does not hold any more, and resigns: on
    ZooKeeper, a client that moved to another replica of the service learns early that its claim is
    of no use, and the next one gets the lock before the validity would have ended.
    """
    history = list(history)
    asked: dict[str, float] = {}
    until: dict[str, float] = {}
    for record in history:
        if record.kind in _TOLD and record.id:
            asked[record.id] = min(record.began, asked.get(record.id, record.began))
            until[record.id] = max(record.until, until.get(record.id, 0.0))
    for record in history:
        if record.kind is Kind.LOST and record.id:
            until[record.id] = min(record.began, until[record.id])
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
    ]
