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
_ITEM = re.compile(r'"([1-9][0-9]{0,18})"((?:; *[a-z]+="[^"\\]*")*)')
_PARAMETER = re.compile(r'; *([a-z]+)="([^"\\]*)"')
_ID = re.compile(r"[0-9a-f]{32}")
_FLOOR = re.compile(r"[0-9]{1,19}")


def header(lease: Holder) -> str:
    """Write what a lease shows."""
    at = shown(lease)
    text = f'"{at.token}";id="{at.id}";name="{quote(at.name, safe="")}"'
    return f'{text};floor="{at.floor}"' if at.shared else text


def parse(value: str) -> Shown:
    """Read it; ValueError says what is wrong with it."""
    item = _ITEM.fullmatch(value.strip())
    if item is None:
        raise ValueError(f"{HEADER} is a token in quotes and its parameters, once: not {value!r}")
    token, said = int(item[1]), dict(_PARAMETER.findall(item[2]))
    if not _ID.fullmatch(said.get("id", "")):
        raise ValueError(f"{HEADER} needs id, the 32 hexadecimal digits of the claim: {value!r}")
    name = checked(unquote(said.get("name", ""), errors="strict"))
    floor = said.get("floor")
    if floor is None:
        return Shown(name, token, said["id"], token, shared=False)
    if not _FLOOR.fullmatch(floor) or int(floor) > token:
        raise ValueError(f"{HEADER}: a floor is a number not above the ticket: {value!r}")
    return Shown(name, token, said["id"], int(floor), shared=True)
