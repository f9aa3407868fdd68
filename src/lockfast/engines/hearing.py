"""How an engine listens: what the engines have in common that are told of a grant by a message."""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.port import EVERYONE, Wake

CALM = 0.1  # seconds between attempts to listen


def before(deadline: float | None, soon: float) -> float:
    """Give the earlier of the two."""
    return soon if deadline is None else min(deadline, soon)


def patience(deadline: float | None, now: float) -> float:
    """Give the deadline of a subscription: a heart that has work to do must not wait for it."""
    return now + (1.0 if deadline is None else min(max(deadline - now, 0.05), 1.0))


def wakes(messages: Sequence[bytes] | None) -> list[Wake]:
    """Read messages, each an id and a floor; None: they have just begun to flow."""
    if messages is None:
        return [EVERYONE]
    heard = []
    for message in messages:
        ident, _, floor = message.decode().partition(" ")
        heard.append(Wake(ident, granted=True, floor=int(floor)))
    return heard
