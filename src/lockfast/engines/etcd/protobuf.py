"""The wire format of protobuf, as far as etcd needs it: numbers and bytes by field number.

lockfast does not use the protobuf library. Generated code would tie the program to one version of
it, and packages whose code comes from another version of the generator conflict with that.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockfast.errors import EngineUnavailable

SIGN = 1 << 63
LONGEST = 10  # bytes of an encoded number
Value = int | bytes


def varint(number: int) -> bytes:
    """Encode a number, seven bits in a byte. A negative one is encoded as a 64-bit integer."""
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
    """Encode a field that is a number."""
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes) -> bytes:
    """Encode a field that is bytes, text or a message."""
    return varint(field << 3 | 2) + varint(len(value)) + value


class Malformed(EngineUnavailable):
    """A reply that cannot be decoded. Whether its request was carried out is unknown."""

    def __init__(self, what: str) -> None:
        """Describe in `what` what is wrong with the reply."""
        super().__init__(f"etcd sent a malformed reply: {what}", sent=True)


def fields(message: bytes) -> Iterator[tuple[int, Value]]:
    """Decode a message: yield each field's number and value, in the order of the message."""
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
            if at > end:
                raise Malformed("a field ends behind its message")
            yield tag >> 3, message[begin:at]
        elif kind in (1, 5):  # from a later etcd: lockfast reads no such field
            at += 8 if kind == 1 else 4
        else:
            raise Malformed(f"wire type {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Decode a number of 64 bits, in ten bytes at most. Return it and the place after it. Without
    the limit, decoding a long number would take time in the square of its length.
    """
    if at < len(message) and message[at] < 128:  # noqa: PLR2004  # one byte, as most
        return message[at], at + 1
    value = shift = 0
    for byte in message[at : at + LONGEST]:
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:  # noqa: PLR2004  # the last byte
            return value & (2 * SIGN - 1), at
        shift += 7
    raise Malformed("a number does not end")


def numbers(message: bytes) -> dict[int, int]:
    """Return the fields that are numbers. protobuf omits a 0, so read them with `get(field, 0)`."""
    return {field: value for field, value in fields(message) if isinstance(value, int)}


def parts(message: bytes, field: int) -> list[bytes]:
    """Return all values of a field that is bytes."""
    return [value for each, value in fields(message) if each == field and isinstance(value, bytes)]


def part(message: bytes, field: int) -> bytes:
    """Return the first value of a field that is bytes. Raise `Malformed` without one."""
    found = parts(message, field)
    if not found:
        raise Malformed(f"there is no field {field}")
    return found[0]
