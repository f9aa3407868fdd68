"""Writes to the guarded resource: none below the mark, and each by its token's owner."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence

from tests.robustness.checkers.tokens import grants
from tests.robustness.history import Kind, Outcome, Record


def marks_never_fall(log: Sequence[tuple[int, str, str]]) -> list[str]:
    """In the resource's own order, tokens never fall, and a token stays with one claim."""
    wrong = []
    for before, after in itertools.pairwise(log):
        if after[0] < before[0]:
            wrong.append(f"token {after[0]} was applied after {before[0]}: {after[2]!r}")
        elif after[0] == before[0] and after[1] != before[1]:
            wrong.append(f"two claims wrote with token {after[0]}: {before[1]} and {after[1]}")
    return wrong


def applied_writes_are_owners(
    history: Iterable[Record], log: Sequence[tuple[int, str, str]]
) -> list[str]:
    """Every applied write was asked for by whoever was granted its token, and no acknowledged
    write is missing.
    """
    history = list(history)
    owners = {
        (record.token, record.id): record.client
        for records in grants(history).values()
        for record in records
    }
    asked: dict[str, Record] = {
        record.value: record for record in history if record.kind is Kind.WRITE and record.fenced
    }
    applied: dict[str, int] = defaultdict(int)
    wrong = []
    for token, id_, value in log:
        applied[value] += 1
        record = asked.get(value)
        if record is None:
            continue  # its client was killed before it could say so
        if record.outcome is Outcome.NO:
            wrong.append(f"{value!r} was refused and yet applied")
        if owners.get((token, id_)) not in (None, record.client):
            wrong.append(f"{value!r} was written by {record.client} with another's token {token}")
    for value, record in asked.items():
        if record.outcome is Outcome.OK and not applied[value]:
            wrong.append(f"{value!r} was acknowledged and is not there")
    wrong += [
        f"{value!r} was applied {times} times" for value, times in applied.items() if times > 1
    ]
    return wrong
