"""The `Fencing-Token` header: a token, the id of its claim and the name of its lock. No I/O.

    Fencing-Token: "1763160000123456";id="5e0c...";name="invoice%3A42"

The token is a string, because some parsers would read a number as floating point. The header of a
reader also has the floor of its grant. The format is an Item of Structured Fields (RFC 9651).
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from lockfast.guards.mark import Holder, Shown, shown
from lockfast.names import checked

HEADER = "Fencing-Token"
SHOWN = "lockfast.shown"
"""The key under which a handler finds the values of the token, in the scope (ASGI) or the environ
(WSGI)."""
HIGHEST = 2**53 - 1
"""The highest token that engines give out. A mark above it would refuse every holder for ever."""
_ITEM = re.compile(r'"([1-9][0-9]{0,15})"((?:; *[a-z]+="[^"\\]*")*)')
_PARAMETER = re.compile(r'; *([a-z]+)="([^"\\]*)"')
_ID = re.compile(r"[0-9a-f]{32}")
_FLOOR = re.compile(r"[1-9][0-9]{0,15}")
_QUOTED = 100  # characters of a malformed header that the error message quotes


def header(lease: Holder, signed: str = "") -> str:
    """Return the value of the `Fencing-Token` header for a lease.

    Args:
        lease: A lease, or what `parse` of the HTTP guard returned.
        signed: The signed token, if the server verifies it: see `Lease.signed`.

    Returns:
        The value. It never changes while the lease is held.

    Raises:
        TypeError: The lease is a permit of a semaphore.
    """
    at = shown(lease)
    text = f'"{at.token}";id="{at.id}";name="{quote(at.name, safe="")}"'
    if at.shared:
        text = f'{text};floor="{at.floor}"'
    return f'{text};signed="{signed}"' if signed else text


def parse(value: str) -> Shown:
    """Return the values in a `Fencing-Token` header. Pass them to a guard in place of a lease.

    The values are not verified: anybody can write a header. See `Door`.

    Args:
        value: The value of the header.

    Returns:
        The name of the lock, the token and the id of the claim.

    Raises:
        ValueError: The header is malformed.

    Example:
        ::

            from lockfast.guards.http import header, parse

            with client.lock("invoice:42", ttl=10) as lease:
                shown = parse(header(lease))
                assert (shown.name, shown.token) == ("invoice:42", lease.token)
    """
    shortened = value[:_QUOTED]
    token, said = _item(value, shortened)
    if token > HIGHEST:
        raise ValueError(f"{HEADER}: a token must be below 2^53, not {token}")
    if not _ID.fullmatch(said.get("id", "")):
        raise ValueError(
            f"{HEADER} needs id, the 32 hexadecimal digits of the lease: {shortened!r}"
        )
    name = checked(unquote(said.get("name", ""), errors="strict"))
    floor = said.get("floor")
    if floor is None:
        return Shown(name, token, said["id"], token, shared=False)
    if not _FLOOR.fullmatch(floor) or int(floor) > token:
        raise ValueError(f"{HEADER}: floor must be a number from 1 to the ticket: {shortened!r}")
    return Shown(name, token, said["id"], int(floor), shared=True)


def signed_in(value: str) -> str:
    """Return the signed token in a `Fencing-Token` header, or an empty text. Raise `ValueError`."""
    return _item(value, value[:_QUOTED])[1].get("signed", "")


def _item(value: str, shortened: str) -> tuple[int, dict[str, str]]:
    item = _ITEM.fullmatch(value.strip())
    if item is None:
        raise ValueError(
            f"{HEADER} must be one token in quotes with its parameters, not {shortened!r}"
        )
    pairs = _PARAMETER.findall(item[2])
    said = dict(pairs)
    if len(said) < len(pairs):
        raise ValueError(f"{HEADER} has a parameter twice: {shortened!r}")
    return int(item[1]), said
