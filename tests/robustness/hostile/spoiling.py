"""Spoiling: what a hostile server, or a broken one, may do to a reply."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from tests.robustness.hostile.framing import Frame

NUMBERS = [0, 1, -1, 2**31, 2**53 - 1, 2**53, 2**63 - 1, 2**64, 10**30]
HUGE = 8 * 2**20  # bytes of a reply that is too long
Spoil = Callable[[Frame, random.Random], bytes]


def flip(frame: Frame, chance: random.Random) -> bytes:
    """Change a few bytes of the content."""
    raw = bytearray(frame.raw)
    for _ in range(chance.randint(1, 4)):
        if frame.body < len(raw):
            raw[chance.randrange(frame.body, len(raw))] = chance.randrange(256)
    return bytes(raw)


def flip_anywhere(frame: Frame, chance: random.Random) -> bytes:
    """Change a byte, perhaps one of the framing."""
    return flip(Frame(frame.raw, 0), chance)


def renumber(frame: Frame, chance: random.Random) -> bytes:
    """Put another number in the place of one, with as many digits if there is a length to keep."""
    found = list(re.finditer(rb"\d+", frame.raw[frame.body :]))
    if not found:
        return raise_byte(frame, chance)
    one = chance.choice(found)
    number = str(chance.choice(NUMBERS)).encode()
    if chance.random() < 0.7:
        number = number[-len(one[0]) :].rjust(len(one[0]), b"9")
    start, end = one.start() + frame.body, one.end() + frame.body
    return frame.raw[:start] + number + frame.raw[end:]


def raise_byte(frame: Frame, chance: random.Random) -> bytes:
    """Set a byte to the highest or the lowest: a length, or the first digit of a binary number."""
    raw = bytearray(frame.raw)
    if frame.body < len(raw):
        raw[chance.randrange(frame.body, len(raw))] = chance.choice([0, 0x7F, 0x80, 0xFF])
    return bytes(raw)


def garbage(frame: Frame, chance: random.Random) -> bytes:
    """Say something else of the same length."""
    return frame.raw[: frame.body] + chance.randbytes(len(frame.raw) - frame.body)


def oversize(frame: Frame, chance: random.Random) -> bytes:
    """Say much more than was asked."""
    return frame.raw + bytes([chance.randrange(256)]) * HUGE


def twice(frame: Frame, chance: random.Random) -> bytes:
    """Say it twice."""
    del chance
    return frame.raw * 2


def oversize_length(frame: Frame, chance: random.Random) -> bytes:
    """Announce a length that never comes."""
    raw = bytearray(frame.raw)
    for place in range(min(frame.body, 5, len(raw))):
        raw[place] = chance.choice([raw[place], 0x7F, 0x39])
    return bytes(raw)


CONTENT: list[Spoil] = [flip, renumber, raise_byte, garbage]
"""What a driver lets through, for our own code to refuse."""
FRAMING: list[Spoil] = [flip_anywhere, oversize, twice, oversize_length]
"""What ends a connection as a rule."""
