"""Helpers for engines whose server sends a message when it grants a claim."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lockfast.port import EVERYONE, Wake

MESSAGE = re.compile(rb"([0-9A-Za-z]{1,64}) ([0-9]{1,16})")
CALM = 0.1  # seconds between attempts to subscribe


def before(deadline: float | None, soon: float) -> float:
    """Return the earlier of `soon` and the deadline, if there is one."""
    return soon if deadline is None else min(deadline, soon)


def patience(deadline: float | None, now: float) -> float:
    """Return the deadline for subscribing: the heart's next appointment, 0.05 to 1 s from now."""
    return now + (1.0 if deadline is None else min(max(deadline - now, 0.05), 1.0))


def wakes(messages: Sequence[bytes] | None) -> list[Wake]:
    """Return the wakes of messages, each an id and a floor. None: the subscription has just begun.

    Messages of any other form are ignored, because other programs may be allowed to publish on the
    channel. A waiter that misses a message soon reads its standing by itself.
    """
    if messages is None:
        return [EVERYONE]
    found = (MESSAGE.fullmatch(message) for message in messages)
    return [Wake(each[1].decode(), granted=True, floor=int(each[2])) for each in found if each]
