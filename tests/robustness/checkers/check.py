"""All checkers at once, held to what a run promises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.robustness.checkers.belief import kept, within_lease
from tests.robustness.checkers.chain import lost_updates
from tests.robustness.checkers.hold import lock_object
from tests.robustness.checkers.linear import fenced_register
from tests.robustness.checkers.queue import capacity, ticket_order
from tests.robustness.checkers.recovery import recovers
from tests.robustness.checkers.rightful import rightful
from tests.robustness.checkers.together import all_or_nothing
from tests.robustness.checkers.tokens import tokens_increase, tokens_unique
from tests.robustness.checkers.violation import Violation, Windows, faults
from tests.robustness.checkers.writes import Log, applied_writes_are_owners, marks_never_fall
from tests.robustness.history import Record

Checker = Callable[[Sequence[Record], Log], list[Violation]]


def _chain(_: Sequence[Record], log: Log) -> list[Violation]:
    return [
        Violation("lost_updates", f"{name}: {said}")
        for name, applied in log.items()
        for said in lost_updates([(value, saw) for _, _, value, saw in applied])
    ]


CHECKERS: dict[str, Checker] = {
    # An election's terms are its tokens: one leader for each, and they increase.
    "tokens_unique": lambda history, _: tokens_unique(history),
    "tokens_increase": lambda history, _: tokens_increase(history),
    "marks_never_fall": lambda _, log: marks_never_fall(log),
    "applied_writes_are_owners": applied_writes_are_owners,
    "fenced_register": fenced_register,
    "lost_updates": _chain,
    "all_or_nothing": lambda history, _: all_or_nothing(history),
    "within_lease": lambda history, _: within_lease(history),
    "kept": lambda history, _: kept(history),
    "rightful": lambda history, _: rightful(history),
    "capacity": lambda history, _: capacity(history),
    "ticket_order": lambda history, _: ticket_order(history),
    "lock_object": lambda history, _: lock_object(history),
}
EXCUSED = {"within_lease", "kept", "rightful", "capacity", "ticket_order"}
"""Those that a moved clock or lost data excuses: only for what lived through it."""
ALL = frozenset({*CHECKERS, "recovers"})


@dataclass(frozen=True)
class Promises:
    """What must hold in a run."""

    hold: frozenset[str] = ALL
    """The checkers that must find nothing."""
    bound: float | None = None
    """Within how many seconds a waiter is granted what nobody holds; None: not promised."""


def check(history: Sequence[Record], log: Log, promises: Promises) -> list[Violation]:
    """Tell every violation of what is promised."""
    shaken = Windows(faults(history), ("clock", "data"))
    wrong = []
    for name, checker in CHECKERS.items():
        if name in promises.hold:
            wrong += [
                violation
                for violation in checker(history, log)
                if name not in EXCUSED or not shaken.meet(violation.began, violation.ended)
            ]
    if promises.bound is not None and "recovers" in promises.hold:
        wrong += recovers(history, promises.bound)
    return wrong
