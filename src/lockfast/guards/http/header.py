"""The header: a token as a decimal string, with the claim's id and the lock's name. Pure.

    Fencing-Token: "1763160000123456";id="5e0c...";name="invoice%3A42"

A string and not a number, since some would read a number as floating point. A reader's has the
floor of its grant besides. It is an item of the structured fields of RFC 9651.
"""

from __future__ import annotations

import re
from urllib.parse import quote, unquote

from lockfast.guards.mark import Holder, Shown, shown
from lockfast.names import checked

HEADER = "Fencing-Token"
SHOWN = "lockfast.shown"
"""Where a handler finds what was shown: in the scope (ASGI) or the environ (WSGI)."""
HIGHEST = 2**53 - 1
"""No engine mints more. A mark above it would refuse every holder for ever."""
_ITEM = re.compile(r'"([1-9][0-9]{0,15})"((?:; *[a-z]+="[^"\\]*")*)')
_PARAMETER = re.compile(r'; *([a-z]+)="([^"\\]*)"')
_ID = re.compile(r"[0-9a-f]{32}")
_FLOOR = re.compile(r"[1-9][0-9]{0,15}")
_QUOTED = 100  # characters of a wrong header that an answer repeats


def header(lease: Holder) -> str:
    """Write what a lease shows."""
    at = shown(lease)
    text = f'"{at.token}";id="{at.id}";name="{quote(at.name, safe="")}"'
    return f'{text};floor="{at.floor}"' if at.shared else text


def parse(value: str) -> Shown:
    """Read it; ValueError says what is wrong with it.

    What it says is only as true as its sender is honest: anybody can write a header.
    """
    item = _ITEM.fullmatch(value.strip())
    shortened = value[:_QUOTED]
    if item is None:
        raise ValueError(
            f"{HEADER} is a token in quotes and its parameters, once: not {shortened!r}"
        )
    token, pairs = int(item[1]), _PARAMETER.findall(item[2])
    said = dict(pairs)
    if token > HIGHEST:
        raise ValueError(f"{HEADER}: a token is below 2^53, and {token} is not")
    if len(said) < len(pairs):
        raise ValueError(f"{HEADER} has a parameter twice: {shortened!r}")
    if not _ID.fullmatch(said.get("id", "")):
        raise ValueError(
            f"{HEADER} needs id, the 32 hexadecimal digits of the claim: {shortened!r}"
        )
    name = checked(unquote(said.get("name", ""), errors="strict"))
    floor = said.get("floor")
    if floor is None:
        return Shown(name, token, said["id"], token, shared=False)
    if not _FLOOR.fullmatch(floor) or int(floor) > token:
        raise ValueError(
            f"{HEADER}: a floor is a number from 1 to the ticket itself: {shortened!r}"
        )
    return Shown(name, token, said["id"], int(floor), shared=True)
