"""Linearizability of the fenced register, by the search of Wing, Gong and Lowe."""

from __future__ import annotations

from collections.abc import Iterable

from tests.robustness.history import Kind, Outcome, Record

State = tuple[int, str]
"""The mark: the highest token, and the claim that showed it."""
INFINITY = float("inf")


def fenced_register(history: Iterable[Record]) -> list[str]:
    """The fenced writes of each name can be put in one order that the rule of the mark explains.

    A write that was acknowledged raised the mark or stood on it; one that was refused met a higher
    mark; one of unknown outcome may have taken effect at any later time, or never.
    """
    wrong = []
    marking = (Kind.WRITE, Kind.SEAL)
    names = {record.name for record in history if record.kind in marking}
    for name in sorted(names):
        operations = [
            record
            for record in history
            if record.kind in marking and record.fenced and record.name == name
        ]
        if not _explained(operations):
            wrong.append(f"{name}: no order of {len(operations)} writes explains what was told")
    return wrong


def _explained(operations: list[Record]) -> bool:
    """Search depth first, remembering where it has been: (what is done, the mark)."""
    operations = sorted(operations, key=lambda record: record.began)
    ends = [
        INFINITY if record.outcome is Outcome.UNKNOWN else record.ended for record in operations
    ]
    needed = sum(1 for record in operations if record.outcome is not Outcome.UNKNOWN)
    seen: set[tuple[int, State]] = set()
    stack: list[tuple[int, State, int]] = [(0, (0, ""), 0)]
    while stack:
        done, mark, count = stack.pop()
        if count == needed:
            return True
        if (done, mark) in seen:
            continue
        seen.add((done, mark))
        # Only what began before the first end of all that is left may come next.
        first = min(end for i, end in enumerate(ends) if not done >> i & 1)
        for i, record in enumerate(operations):
            if record.began > first:
                break
            if done >> i & 1:
                continue
            after = _applied(mark, record)
            if after is not None:
                certain = record.outcome is not Outcome.UNKNOWN
                stack.append((done | 1 << i, after, count + certain))
    return False


def _applied(mark: State, record: Record) -> State | None:
    stands = record.token > mark[0] or (record.token, record.id) == mark
    if record.outcome is Outcome.NO:
        return None if stands else mark
    return (record.token, record.id) if stands else None
