"""Checkers: pure functions over a history, each giving what it found wrong, in words."""

from tests.robustness.checkers.aftermath import by_fault
from tests.robustness.checkers.belief import Overlap, kept, overlaps, within_lease
from tests.robustness.checkers.carried import carried, lost_by
from tests.robustness.checkers.chain import lost_updates
from tests.robustness.checkers.check import ALL, Promises, check
from tests.robustness.checkers.hold import lock_object
from tests.robustness.checkers.linear import fenced_register
from tests.robustness.checkers.queue import capacity, ticket_order
from tests.robustness.checkers.recovery import recovers, waits
from tests.robustness.checkers.rightful import rightful
from tests.robustness.checkers.together import all_or_nothing
from tests.robustness.checkers.tokens import tokens_increase, tokens_unique
from tests.robustness.checkers.violation import Violation
from tests.robustness.checkers.writes import applied_writes_are_owners, marks_never_fall

__all__ = [
    "ALL",
    "Overlap",
    "Promises",
    "Violation",
    "all_or_nothing",
    "applied_writes_are_owners",
    "by_fault",
    "capacity",
    "carried",
    "check",
    "fenced_register",
    "kept",
    "lock_object",
    "lost_by",
    "lost_updates",
    "marks_never_fall",
    "overlaps",
    "recovers",
    "rightful",
    "ticket_order",
    "tokens_increase",
    "tokens_unique",
    "waits",
    "within_lease",
]
