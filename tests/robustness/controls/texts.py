"""Mutants of the programs that run inside Redis: what is replaced in their text, before it is read.

A text that is not found is an error: a control must not rot into one that changes nothing.
"""

from __future__ import annotations

import importlib.resources
import importlib.util
from collections.abc import Iterable, Mapping
from pathlib import Path

REDIS = "lockfast.engines.redis.scripts"
REDLOCK = "lockfast.engines.redlock.scripts"
GUARD = "lockfast.guards.redis"

Edits = Mapping[tuple[str, str], Mapping[str, str]]
"""By package and file: what is put in whose place."""

EDITS: Mapping[str, Edits] = {
    "release without the owner check": {
        (REDIS, "resign.lua"): {
            "if raw and string.sub(raw, 1, 32) == id then": (
                "if raw and string.sub(raw, 1, 1) ~= 'Q' then"
            ),
            "find(q, id)": "first(q)",
        },
    },
    "renewal that resurrects": {
        (REDIS, "renew.lua"): {
            "    replies[i] = raw and type(raw) == 'table' and raw or false\n": (
                "    replies[i] = string.format('%.0f', time[1] * 1000000 + time[2])\n"
                "    local record = ' v1 1 1 1 ' .. ARGV[i * 2] .. ' {}'\n"
                "    redis.call('SET', KEYS[i * 3 - 2], id .. ' ' .. replies[i] .. record, 'PX',"
                " ARGV[i * 2])\n"
            ),
        },
    },
    "no tombstone in doubt": {
        (REDIS, "resign.lua"): {"if ARGV[2] ~= '0' then": "if false then"},
    },
    "mark without the claim's id": {
        (GUARD, "apply.lua"): {
            "if above(current, token) or (not floor and current == token) then": (
                "if above(current, token) then"
            ),
        },
    },
    "short waits": {
        (REDIS, "stored.lua"): {"local LONGEST_WAIT = 10000": "local LONGEST_WAIT = 400"},
    },
    "tokens of a second": {  # as two primaries, or a lost counter and a clock, would give them
        (REDIS, "claim.lua"): {
            "local ticket = time[1] * 1000000 + time[2] + ARGV[5]": (
                "local ticket = time[1] * 1000000"
            ),
            "  ticket = got[2] + 1\n": "",
        },
    },
    "a wiped node that joins at once": {
        (REDLOCK, "join.lua"): {
            "local gone = (now - since) / 1000\nif ARGV[3] ~= since then": (
                "local gone = 1e9\nif ARGV[3] ~= since then"
            ),
        },
    },
}


class Rotten(Exception):
    """A mutant would change nothing: the text that it replaces is not there any more."""


def edited(names: Iterable[str], package: str, file: str, text: str) -> str:
    """Give the text of a file as these mutants have it."""
    for name in names:
        for old, new in EDITS.get(name, {}).get((package, file), {}).items():
            if text.count(old) != 1:
                raise Rotten(f"{name}: {old!r} is not once in {file} of {package}")
            text = text.replace(old, new)
    return text


def check(names: Iterable[str]) -> None:
    """Raise `Rotten` if any text is not found."""
    for name in names:
        for package, file in EDITS.get(name, {}):
            edited([name], package, file, _text(package, file))


def switch_in(names: Iterable[str]) -> None:
    """Change the programs, and have them read: raise `Rotten` if they had been read before."""
    names = list(names)
    read: set[tuple[str, str]] = set()

    def files(package: str) -> Folder:
        return Folder(names, package, read)

    importlib.resources.files = files  # type: ignore[assignment]  # it has what is used of it
    for name in names:
        for package, file in EDITS.get(name, {}):
            importlib.import_module(package)
            if (package, file) not in read:
                raise Rotten(f"{name}: {file} of {package} was read before it was changed")


class Folder:
    """The files of a package, as the mutants have them."""

    def __init__(self, names: list[str], package: str, read: set[tuple[str, str]]) -> None:
        self._names = names
        self._package = package
        self._read = read

    def joinpath(self, file: str) -> Text:
        self._read.add((self._package, file))
        return Text(edited(self._names, self._package, file, _text(self._package, file)))

    __truediv__ = joinpath


class Text:
    """One file, as the mutants have it."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read_text(self, encoding: str) -> str:
        del encoding
        return self._text


def _text(package: str, file: str) -> str:
    """Read a file, and import nothing: that would read all programs as they are."""
    top, *rest = package.split(".")
    spec = importlib.util.find_spec(top)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent.joinpath(*rest, file).read_text("utf-8")
