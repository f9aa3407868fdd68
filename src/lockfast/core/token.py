"""Tickets by hybrid clock: never back while the counter or the clock survives."""

from __future__ import annotations

LIMIT = 2**53
"""Tokens stay below it: beyond, a double (JSON, Lua, a spreadsheet) skips integers."""


def mint(last: int, micros: int) -> int:
    """Return the ticket after `last`, at a time of `micros` microseconds.

    The counter alone resets when the engine loses its data; the clock alone repeats when it goes
    back. The larger of the two resets only if both happen at once.
    """
    ticket = max(last + 1, micros)
    if ticket >= LIMIT:
        raise OverflowError(f"ticket {ticket} would reach 2**53: the engine's clock is wrong")
    return ticket
