"""Splits a batch into calls whose requests and replies fit into the packets of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from lockfast.errors import EngineRefused
from lockfast.port import Ask

LEAST = 16_384
"""Bytes of a packet that no usual server has less of. It is assumed before the first connection."""
CALL = 128  # bytes of a statement without its records
LINE = 160  # bytes of the reply to one claim, without a payload. Payloads take half of a packet


def packed(
    asks: Sequence[Ask], order: Sequence[int], size: Callable[[Ask], int], packet: int
) -> Iterator[list[int]]:
    """Split the places of claims into calls, in their order. A claim that is too large has a call
    of its own.

    `size`: how many bytes of a statement the record of a claim takes.
    `packet`: `max_allowed_packet` of the server.
    """
    most = packet // 2 // LINE
    part: list[int] = []
    left = packet - CALL
    for place in order:
        taken = size(asks[place])
        if part and (taken > left or len(part) >= most):
            yield part
            part, left = [], packet - CALL
        part.append(place)
        left -= taken
    if part:
        yield part


def refuse_too_large(taken: int, packet: int) -> None:
    """Refuse a claim that fits into no call. The server would close the connection, and often
    before its error arrives.
    """
    if taken > packet - CALL:
        raise EngineRefused(
            f"the request is too large for the server: {taken + CALL:,} bytes, and its "
            f"max_allowed_packet is {packet:,}. Set it to 1 MiB or more: "
            "SET GLOBAL max_allowed_packet = 1048576"
        )
