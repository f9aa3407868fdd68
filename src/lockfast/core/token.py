"""Tickets from a counter and a clock. They never go back while either of the two survives."""

from __future__ import annotations

LIMIT = 2**53
"""Tokens stay below this. Above it, a double (JSON, Lua, a spreadsheet) skips integers."""


def mint(last: int, micros: int) -> int:
    """Return the ticket after `last`, at a time of `micros` microseconds.

    The counter alone would start again when the engine loses its data. The clock alone would repeat
    tickets when it goes back. The larger of the two goes back only if both happen at once.
    """
    ticket = max(last + 1, micros)
    if ticket >= LIMIT:
        raise OverflowError(f"ticket {ticket} would reach 2**53: the engine's clock is wrong")
    return ticket
