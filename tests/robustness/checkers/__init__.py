"""Checkers: pure functions over a history, each giving what it found wrong, in words."""

from tests.robustness.checkers.belief import overlaps
from tests.robustness.checkers.linear import fenced_register
from tests.robustness.checkers.queue import capacity, ticket_order
from tests.robustness.checkers.tokens import tokens_increase, tokens_unique
from tests.robustness.checkers.writes import applied_writes_are_owners, marks_never_fall

__all__ = [
    "applied_writes_are_owners",
    "capacity",
    "fenced_register",
    "marks_never_fall",
    "overlaps",
    "ticket_order",
    "tokens_increase",
    "tokens_unique",
]
