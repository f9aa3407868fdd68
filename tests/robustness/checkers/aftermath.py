"""The aftermath: what was measured while each kind of fault was in force, and for a ttl after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.robustness.checkers.belief import BREAKING, Overlap, overlaps
from tests.robustness.checkers.tokens import tokens_increase, tokens_unique
from tests.robustness.checkers.violation import Fault, Windows, faults
from tests.robustness.history import Kind, Outcome, Record

_COUNTED = {
    (Kind.ACQUIRE, Outcome.OK): "grants",
    (Kind.WRITE, Outcome.OK): "applied",
    (Kind.WRITE, Outcome.NO): "refused",
}


def by_fault(history: Sequence[Record], ttl: float) -> dict[str, dict[str, int]]:
    """Count, for each kind of fault: faults, grants, two at work at once (and with a right to),
    tokens out of order, fenced writes applied and refused. What falls into two kinds counts twice;
    but an overlap counts only for the kinds that explain it, if there are any.
    """
    # One that could not be done just then is recorded too, and was never in force.
    broken = faults(record for record in history if record.outcome is not Outcome.NO)
    found: dict[str, dict[str, int]] = {}
    shared = [(overlap, _blamed(overlap, broken)) for overlap in overlaps(history)]
    wrong = [*tokens_unique(history), *tokens_increase(history)]
    counted = [
        (record.ended, _COUNTED[record.kind, record.outcome])
        for record in history
        if record.fenced and (record.kind, record.outcome) in _COUNTED
    ]
    for kind in sorted({fault.kind for fault in broken}):
        mine = [fault for fault in broken if fault.kind == kind]
        around = Windows([fault._replace(ended=fault.ended + ttl) for fault in mine])
        counts = Counter(what for at, what in counted if around.meet(at, at))
        counts["faults"] = len(mine)
        met = [
            overlap
            for overlap, blamed in shared
            if (kind in blamed if blamed else around.meet(overlap.began, overlap.ended))
        ]
        counts["overlaps"] = len(met)
        counts["rightful"] = sum(overlap.rightful for overlap in met)
        counts["out_of_order"] = sum(around.meet(each.ended, each.ended) for each in wrong)
        found[kind] = dict(sorted(counts.items()))
    return found


def _blamed(overlap: Overlap, broken: list[Fault]) -> list[str]:
    """Name the kinds that explain it: that of a right to believe is no pause."""
    breaks = ("clock", "data") if overlap.rightful else BREAKING
    return Windows(broken, breaks).kinds(overlap.since, overlap.ended)
