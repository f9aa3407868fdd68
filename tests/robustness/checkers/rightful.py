"""Rightful holders: whoever holds, and knows it, is refused by no guard."""

from __future__ import annotations

from collections.abc import Iterable

from tests.robustness.history import Kind, Outcome, Record

_TOLD = (Kind.ACQUIRE, Kind.RELEASE, Kind.LOST)


def rightful_refused(history: Iterable[Record]) -> list[str]:
    """Tell of every seal or write that was refused while its holder's validity was still running.

    Only where neither clocks were moved nor data was lost. A pause is no excuse: the refusal was
    told before the validity had ended, so the engine had let nobody else in by then.
    """
    history = list(history)
    until: dict[str, float] = {}
    for record in history:
        if record.kind in _TOLD and record.id:
            until[record.id] = max(record.until, until.get(record.id, 0.0))
    return [
        f"{record.name}: {record.client} was refused with token {record.token}, and held it for "
        f"{until[record.id] - record.ended:.3f} s more"
        for record in history
        if record.kind in (Kind.WRITE, Kind.SEAL)
        and record.fenced
        and record.outcome is Outcome.NO
        and record.ended < until.get(record.id, 0.0)
    ]
