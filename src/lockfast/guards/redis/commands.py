"""Checks of Redis commands before they are sent: their arguments and their keys.

Redis does not roll a script back. So a mistake in the third command of a list must be found before
the first is applied. The guard asks the server for the rules of each command, once per command.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

Word: TypeAlias = str | bytes | int | float
Command: TypeAlias = Sequence[Word]

LONGEST = 7000
"""The most words in one command. Lua passes them on its stack, which has about 8,000 slots."""
SLOTS = 16384


class Rule(NamedTuple):
    """The rules of a command, from COMMAND INFO."""

    arity: int
    """The number of words, including the command's name. If negative, the minimum."""
    first: int
    """The position of the first key. 0 if only COMMAND GETKEYS can find the keys."""
    last: int
    step: int
    scripted: bool
    """Whether scripts may call it."""


def rule(info: Sequence[Any] | None, name: str) -> Rule:
    """Return the rules in a reply to COMMAND INFO. Raise `ValueError` for an unknown command."""
    if info is None:
        raise ValueError(f"this Redis has no command {name!r}: nothing was applied")
    flags = {text(flag) for flag in info[2]}
    first = 0 if "movablekeys" in flags else info[3]
    return Rule(info[1], first, info[4], info[5], "noscript" not in flags)


def fits(rule: Rule, command: Command) -> None:
    """Raise `ValueError` if the command has a wrong number of words, or cannot run in a script."""
    size = len(command)
    if size != rule.arity if rule.arity >= 0 else size < -rule.arity:
        raise ValueError(f"{command[0]!r} has a wrong number of arguments: nothing was applied")
    if size > LONGEST:
        raise ValueError(f"{command[0]!r} has over {LONGEST} words: split it. Nothing was applied")
    if not rule.scripted:
        raise ValueError(f"Redis does not run {command[0]!r} in scripts, so it cannot be guarded")


def keys(rule: Rule, command: Command) -> list[bytes]:
    """Return the keys of a command whose keys have fixed positions."""
    last = rule.last if rule.last >= 0 else len(command) + rule.last
    return [raw(word) for word in command[rule.first : last + 1 : rule.step]]


def slot(key: bytes) -> int:
    """Return the Cluster slot of a key. Only the part in its first braces counts, if it has one."""
    begin = key.find(b"{")
    if begin >= 0:
        end = key.find(b"}", begin)
        if end > begin + 1:
            key = key[begin + 1 : end]
    return crc_hqx(key, 0) % SLOTS


def together(mark: bytes, found: Sequence[bytes]) -> None:
    """Raise `ValueError` unless all keys are in the Cluster slot of the mark."""
    where = slot(mark)
    for key in found:
        if slot(key) != where:
            raise ValueError(
                f"the key {key!r} is in another slot of the cluster than its mark {mark!r}, so "
                "they cannot change in one step: give the keys and the guard one hash tag, "
                "RedisGuard(client, tag='...'). Nothing was applied."
            )


def text(word: str | bytes) -> str:
    """Return a word of a reply as str, whether or not the client has decoded it."""
    return word if isinstance(word, str) else word.decode()


def raw(word: Word) -> bytes:
    """Return a word as bytes, encoded as the client will encode it."""
    return word if isinstance(word, bytes) else str(word).encode()
