"""The queue: capacity is kept among those who rightly hold, and nobody overtakes."""

from __future__ import annotations

from collections.abc import Iterable

from tests.robustness.checkers.belief import Belief, beliefs
from tests.robustness.checkers.violation import Violation
from tests.robustness.history import Record


def capacity(history: Iterable[Record]) -> list[Violation]:
    """At no time do rightful holders weigh more than the capacity: permits fit, and a writer is
    alone. A semaphore's capacity may differ from claim to claim: each holder must fit, by its own
    capacity, beside the holders of lower tickets.
    """
    wrong = []
    for name, held in beliefs(history).items():
        inside: list[Belief] = []
        for belief in held:
            if belief.until <= belief.began:
                continue  # told too late: it never had a right to believe
            inside = [each for each in inside if each.until > belief.began]
            inside.append(belief)
            inside.sort(key=lambda each: each.token)
            weight = 0
            for place, each in enumerate(inside, 1):
                weight += each.weight
                if weight > each.capacity:
                    crowd = inside[:place]
                    who = ", ".join(sorted(one.client for one in crowd))
                    said = f"{name}: {who} held {weight} of {each.capacity} at once"
                    wrong.append(Violation("capacity", said, *_span(crowd)))
                    break
    return wrong


def ticket_order(history: Iterable[Record]) -> list[Violation]:
    """No grant overtakes an earlier ticket beside which it does not fit, or that has to wait.

    A claim with a lower ticket was there before, and is there until its holder lets it go or its
    time is over. So it counts already while it still waits: with it, and with all others ahead,
    the later one must fit.
    """
    wrong = []
    for name, held in beliefs(history).items():
        by_ticket = sorted(held, key=lambda belief: belief.token)
        # The first moment at which any later ticket was told: who ended before it is past.
        first = [belief.began for belief in by_ticket]
        for i in range(len(first) - 2, -1, -1):
            first[i] = min(first[i], first[i + 1])
        ahead: list[Belief] = []
        for belief, moment in zip(by_ticket, first, strict=True):
            ahead = [each for each in ahead if each.until > moment]
            there = [each for each in ahead if each.until > belief.began]
            ahead.append(belief)
            late = [each for each in there if each.began > belief.began]
            crowded = sum(each.weight for each in there) + belief.weight > belief.capacity
            late = late if crowded else [each for each in late if _waits(each, there)]
            if late:
                who = ", ".join(f"{each.client} (ticket {each.token})" for each in late)
                said = f"{name}: {belief.client} (ticket {belief.token}) overtook {who}"
                wrong.append(Violation("ticket_order", said, *_span([*there, belief])))
    return wrong


def _waits(belief: Belief, there: list[Belief]) -> bool:
    """Whether a claim has to wait, by its own capacity, for those that are there ahead of it."""
    ahead = sum(each.weight for each in there if each.token < belief.token)
    return ahead + belief.weight > belief.capacity


def _span(held: list[Belief]) -> tuple[float, float]:
    return min(each.asked for each in held), max(each.until for each in held)
