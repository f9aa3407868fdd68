"""What is known of a command before it is sent: whether it can be applied, and its keys.

A script is not rolled back, so a mistake in the third command of a list is better found before the
first is applied. The server itself is asked what its commands are, once for each of them.
"""

from __future__ import annotations

from binascii import crc_hqx
from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

Word: TypeAlias = str | bytes | int | float
Command: TypeAlias = Sequence[Word]

LONGEST = 7000
"""Words of one command. Lua passes its words on its stack, which has about 8,000 places."""
SLOTS = 16384


class Rule(NamedTuple):
    """What the server says of a command."""

    arity: int
    """Exact, or if negative the least; the command's name counts."""
    first: int
    """The place of the first key; 0 if the server has to be asked each time."""
    last: int
    step: int
    scripted: bool


def rule(info: Sequence[Any] | None, name: str) -> Rule:
    """Read a reply to COMMAND INFO."""
    if info is None:
        raise ValueError(f"this Redis knows no command {name!r}: nothing was applied")
    flags = {text(flag) for flag in info[2]}
    first = 0 if "movablekeys" in flags else info[3]
    return Rule(info[1], first, info[4], info[5], "noscript" not in flags)


def fits(rule: Rule, command: Command) -> None:
    """Raise if the command cannot be right."""
    size = len(command)
    if size != rule.arity if rule.arity >= 0 else size < -rule.arity:
        raise ValueError(f"{command[0]!r} takes other arguments than these: nothing was applied")
    if size > LONGEST:
        raise ValueError(f"{command[0]!r} has over {LONGEST} words: split it. Nothing was applied")
    if not rule.scripted:
        raise ValueError(f"Redis runs no {command[0]!r} in a script, so it cannot be guarded")


def keys(rule: Rule, command: Command) -> list[bytes]:
    """Take the keys out of a command, where they stand in fixed places."""
    last = rule.last if rule.last >= 0 else len(command) + rule.last
    return [raw(word) for word in command[rule.first : last + 1 : rule.step]]


def slot(key: bytes) -> int:
    """Return the Cluster slot of a key: of the part in its first braces, if there is one."""
    begin = key.find(b"{")
    if begin >= 0:
        end = key.find(b"}", begin)
        if end > begin + 1:
            key = key[begin + 1 : end]
    return crc_hqx(key, 0) % SLOTS


def together(mark: bytes, found: Sequence[bytes]) -> None:
    """Raise unless all keys are in the slot of the mark."""
    where = slot(mark)
    for key in found:
        if slot(key) != where:
            raise ValueError(
                f"the key {key!r} is in another slot of the cluster than its mark {mark!r}, so "
                "they cannot change in one step: give the keys and the guard one hash tag, "
                "RedisGuard(client, tag='...'). Nothing was applied."
            )


def text(word: str | bytes) -> str:
    """Read what the server said, which a client may have decoded."""
    return word if isinstance(word, str) else word.decode()


def raw(word: Word) -> bytes:
    """Write a word as the client will."""
    return word if isinstance(word, bytes) else str(word).encode()
