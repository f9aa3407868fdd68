"""Writes to the guarded resource: none below the mark, and each by its token's owner."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tests.robustness.checkers.tokens import grants
from tests.robustness.checkers.violation import Violation
from tests.robustness.history import Kind, Outcome, Record

Applied = tuple[int, str, str, str]
"""Token, the claim's id, what was written, and what its writer had read there before."""
Log = Mapping[str, Sequence[Applied]]
"""What the resource applied, by name, in its own order."""


def marks_never_fall(log: Log) -> list[Violation]:
    """In the resource's own order, tokens never fall, and a token stays with one claim."""
    wrong = []
    for name, applied in log.items():
        for before, after in itertools.pairwise(applied):
            if after[0] < before[0]:
                wrong.append(f"{name}: token {after[0]} was applied after {before[0]}: {after[2]}")
            elif after[0] == before[0] and after[1] != before[1]:
                wrong.append(
                    f"{name}: two claims wrote with token {after[0]}: {before[1]} and {after[1]}"
                )
    return [Violation("marks_never_fall", said) for said in wrong]


def applied_writes_are_owners(history: Iterable[Record], log: Log) -> list[Violation]:
    """Every applied write was asked for by whoever was granted its token, and no acknowledged
    write is missing.
    """
    history = list(history)
    wrong = []
    owners: dict[tuple[str, int], Record] = {
        (name, record.token): record
        for name, records in grants(history).items()
        for record in records
    }
    asked = {
        (record.name, record.value): record
        for record in history
        if record.kind is Kind.WRITE and record.fenced
    }
    times = Counter((name, value) for name, applied in log.items() for _, _, value, _ in applied)
    for name, applied in log.items():
        for token, id_, value, _ in applied:
            owner = owners.get((name, token))
            if owner is not None and owner.id != id_:
                wrong.append(f"{name}: {value} came with {owner.client}'s token {token}")
            record = asked.get((name, value))
            if record is None:
                continue  # its client was killed before it could say so
            if record.outcome is Outcome.NO:
                wrong.append(f"{name}: {value} was refused and yet applied")
            if (record.token, record.id) != (token, id_):
                wrong.append(f"{name}: {value} was shown {record.token}, applied with {token}")
            if owner is not None and owner.client != record.client:
                wrong.append(f"{name}: {record.client} wrote {value} with {owner.client}'s token")
    wrong += [
        f"{name}: {value} was acknowledged and is not there"
        for (name, value), record in asked.items()
        if record.outcome is Outcome.OK and not times[name, value]
    ]
    wrong += [
        f"{name}: {value} was applied {many} times"
        for (name, value), many in times.items()
        if many > 1
    ]
    return [Violation("applied_writes_are_owners", said) for said in wrong]
