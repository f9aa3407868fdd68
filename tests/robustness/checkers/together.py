"""Many locks as one: all or nothing, and given back together."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tests.robustness.checkers.violation import Violation
from tests.robustness.history import Kind, Outcome, Record


def all_or_nothing(history: Iterable[Record]) -> list[Violation]:
    """What one client asked for in one moment was granted as a whole, under one token for each
    name, or not at all; and it was given back as a whole.
    """
    asked: dict[tuple[str, Kind, float], list[Record]] = defaultdict(list)
    for record in history:
        if record.kind in (Kind.ACQUIRE, Kind.RELEASE):
            asked[record.client, record.kind, record.began].append(record)
    parts = {
        (record.name, record.id): frozenset(each.name for each in records)
        for (_, kind, _), records in asked.items()
        if kind is Kind.ACQUIRE
        for record in records
        if record.id
    }
    wrong = []
    for (client, kind, began), records in asked.items():
        names = sorted(record.name for record in records)
        said = ""
        # A client that is killed while it writes these down leaves some of them unknown.
        outcomes = {record.outcome for record in records} - {Outcome.UNKNOWN}
        if len(outcomes) > 1:
            said = f"{client}: {kind} of {', '.join(names)} was half done"
        elif len(names) != len(set(names)):
            said = f"{client}: {kind} of {', '.join(names)} has a name twice"
        elif kind is Kind.RELEASE and outcomes:
            whole = parts.get((records[0].name, records[0].id))
            if whole is not None and whole != set(names):
                said = f"{client}: gave back {', '.join(names)} of {', '.join(sorted(whole))}"
        if said:
            ended = max(record.ended for record in records)
            wrong.append(Violation("all_or_nothing", said, began, ended))
    return wrong
