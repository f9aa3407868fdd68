"""Tokens: never given twice, and higher for whoever asked after another was told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tests.robustness.checkers.violation import Violation
from tests.robustness.history import Kind, Outcome, Record


def grants(history: Iterable[Record]) -> dict[str, list[Record]]:
    """Give the grants of each name, in the order in which they were told."""
    found: dict[str, list[Record]] = defaultdict(list)
    for record in history:
        if record.kind is Kind.ACQUIRE and record.outcome is Outcome.OK:
            found[record.name].append(record)
    for records in found.values():
        records.sort(key=lambda record: record.ended)
    return found


def tokens_unique(history: Iterable[Record]) -> list[Violation]:
    """No token of a name belongs to two claims."""
    wrong = []
    for name, records in grants(history).items():
        owners: dict[int, Record] = {}
        for record in records:
            other = owners.setdefault(record.token, record)
            if other.id != record.id:
                said = (
                    f"{name}: token {record.token} was given to {other.client} and {record.client}"
                )
                wrong.append(Violation("tokens_unique", said, other.began, record.ended))
    return wrong


def tokens_increase(history: Iterable[Record]) -> list[Violation]:
    """Whoever began to ask after another had been granted gets a higher token.

    Two acquisitions that overlap in time may be told in either order.
    """
    wrong = []
    for name, records in grants(history).items():
        by_start = sorted(records, key=lambda record: record.began)
        told = 0
        highest: Record | None = None
        for record in by_start:
            while told < len(records) and records[told].ended < record.began:
                if highest is None or records[told].token > highest.token:
                    highest = records[told]
                told += 1
            if highest is not None and record.token <= highest.token:
                said = (
                    f"{name}: {record.client} got token {record.token} after {highest.client} "
                    f"had been told {highest.token}"
                )
                wrong.append(Violation("tokens_increase", said, highest.began, record.ended))
    return wrong
