"""The aftermath: what was measured while each kind of fault was in force, and for a ttl after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.robustness.checkers.belief import overlaps
from tests.robustness.checkers.tokens import tokens_increase, tokens_unique
from tests.robustness.checkers.violation import Windows, faults
from tests.robustness.history import Kind, Outcome, Record

_COUNTED = {
    (Kind.ACQUIRE, Outcome.OK): "grants",
    (Kind.WRITE, Outcome.OK): "applied",
    (Kind.WRITE, Outcome.NO): "refused",
}


def by_fault(history: Sequence[Record], ttl: float) -> dict[str, dict[str, int]]:
    """Count, for each kind of fault: faults, grants, two at work at once (and with a right to),
    tokens out of order, fenced writes applied and refused. What falls into two kinds counts twice.
    """
    broken = faults(history)
    found: dict[str, dict[str, int]] = {}
    shared = overlaps(history)
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
        met = [overlap for overlap in shared if around.meet(overlap.began, overlap.ended)]
        counts["overlaps"] = len(met)
        counts["rightful"] = sum(overlap.rightful for overlap in met)
        counts["out_of_order"] = sum(around.meet(each.ended, each.ended) for each in wrong)
        found[kind] = dict(sorted(counts.items()))
    return found
