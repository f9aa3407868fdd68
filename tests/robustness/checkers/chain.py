"""The chain: every write of a register names the one it saw, so a lost update breaks it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def lost_updates(log: Sequence[tuple[str, str]]) -> list[str]:
    """Tell every write (its value, and the value it saw) that did not see the one before it.

    A holder that seals, reads and then writes sees the last one, if nobody's stale write can land
    in between. Without a fence it can: then somebody's update was lost.
    """
    return [
        f"{value!r} saw {saw!r}, and overwrote {before!r}"
        for (before, _), (value, saw) in itertools.pairwise(log)
        if saw != before
    ]
