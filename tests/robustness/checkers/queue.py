"""The queue: capacity is kept among those who rightly held, and grants come in ticket order."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from tests.robustness.checkers.belief import Belief, beliefs
from tests.robustness.checkers.tokens import grants
from tests.robustness.history import Record


def capacity(history: Iterable[Record]) -> list[str]:
    """At no time do believing holders weigh more than the capacity. Only where no fault may make
    a belief false: neither pauses, nor clocks, nor lost data.
    """
    wrong = []
    for name, held in beliefs(history).items():
        edges: list[tuple[float, int, Belief]] = []
        for belief in held:
            edges.append((belief.began, 1, belief))
            edges.append((belief.ended, 0, belief))
        inside: dict[str, Belief] = {}
        for _, begins, belief in sorted(edges, key=lambda edge: edge[:2]):
            if not begins:
                inside.pop(belief.id, None)
                continue
            inside[belief.id] = belief
            weight = sum(each.weight for each in inside.values())
            if weight > belief.capacity:
                who = ", ".join(sorted(each.client for each in inside.values()))
                wrong.append(f"{name}: {who} held {weight} of {belief.capacity} at once")
    return wrong


def ticket_order(history: Iterable[Record]) -> list[str]:
    """Exclusive grants are told in the order of tickets, unless the two overlapped while told."""
    wrong = []
    for name, records in grants(history).items():
        exclusive = [record for record in records if record.weight == record.capacity]
        for before, after in itertools.pairwise(exclusive):
            if after.token < before.token and after.began > before.ended:
                wrong.append(f"{name}: ticket {after.token} was granted after {before.token}")
    return wrong
