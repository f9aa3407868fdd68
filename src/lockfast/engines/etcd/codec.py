"""The wire format of protobuf, as far as etcd needs it: numbers and bytes by field number.

Our own forty lines and not protobuf's: generated code pins its users to one version of that
library, which programs that use another generator already quarrel about.
"""

from __future__ import annotations

from collections.abc import Iterator

SIGN = 1 << 63
Value = int | bytes


def varint(number: int) -> bytes:
    """Write a number, seven bits at a time; a negative one as etcd's int64 has it."""
    if 0 <= number < 128:  # noqa: PLR2004  # one byte
        return bytes((number,))
    number &= 2 * SIGN - 1
    out = bytearray()
    while number > 127:  # noqa: PLR2004  # seven bits
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Write a field that is a number."""
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes) -> bytes:
    """Write a field that is bytes, text or a message."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Read a message: each field's number and value, in the order of the wire."""
    at, end = 0, len(message)
    while at < end:
        tag = message[at]
        at += 1
        if tag > 127:  # noqa: PLR2004  # a field beyond the fifteenth
            tag, at = _varint(message, at - 1)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield tag >> 3, value - 2 * SIGN if value >= SIGN else value
        elif kind == 2:  # noqa: PLR2004  # length-delimited
            size, at = _varint(message, at)
            begin, at = at, at + size
            yield tag >> 3, message[begin:at]
        elif kind in (1, 5):  # of a later version: no field of ours is fixed
            at += 8 if kind == 1 else 4
        else:
            raise ValueError(f"not protobuf: wire type {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    byte = message[at]
    at += 1
    if byte < 128:  # noqa: PLR2004  # one byte
        return byte, at
    value, shift = byte & 127, 7
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:  # noqa: PLR2004  # the last byte
            return value, at
        shift += 7


def numbers(message: bytes) -> dict[int, int]:
    """Read the fields that are numbers; a missing one is 0, as protobuf has it."""
    return {field: value for field, value in fields(message) if isinstance(value, int)}


def parts(message: bytes, field: int) -> list[bytes]:
    """Read all values of a field that is bytes."""
    return [value for each, value in fields(message) if each == field and isinstance(value, bytes)]
