"""The phases of a claim, as its client sees it, and which may follow which."""

from __future__ import annotations

from enum import Enum


class Phase(Enum):
    """The phase of a claim's life."""

    ASKING = "sent, or about to be, and not answered yet"
    WAITING = "in the queue"
    HELD = "granted"
    LEAVING = "to be resigned: until the engine confirms that, it may live there"
    ENDED = "nothing is left to do for it"


ASKING, WAITING, HELD, LEAVING, ENDED = Phase

TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    # The reply queues it or grants it. Without a reply it is given up, and resigned if it was sent.
    ASKING: frozenset({WAITING, HELD, LEAVING, ENDED}),
    # A push or a renewal grants it. Or it is given up, or the engine no longer has it.
    WAITING: frozenset({HELD, LEAVING, ENDED}),
    # It is released or lost, and then resigned. It ends at once if its owner has dropped the lease,
    # or in a forked child.
    HELD: frozenset({LEAVING, ENDED}),
    # The engine has confirmed the resignation, or every copy has expired.
    LEAVING: frozenset({ENDED}),
    ENDED: frozenset(),
}
"""The phases that may follow each phase. `tests/unit/claims/test_phases.py` checks that the table
of claims makes each of these transitions, and no other."""
