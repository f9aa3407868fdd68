"""Nodes: how a name becomes a path, and a list of children a queue. No clock, no I/O.

A claim's node is named `<id>-<weight>-<capacity>-<sequence>`, so that the list of children alone
decides who is granted. Its data is a line with ttl and token base, and the payload.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

from lockfast.core.token import LIMIT
from lockfast.port import Ask

BUCKETS = 64  # a list of all names at once would burst ZooKeeper's megabyte
_ID = 32
_LAST = 2**31 - 1
# A sequence that is worn out may begin with a minus.
_NAME = re.compile(r"([0-9A-Za-z]{32})-([0-9]{1,10})-([0-9]{1,10})-(-?[0-9]{1,10})")
_HEADER = re.compile(rb"([0-9]{1,12}) ([0-9]{1,16})(?:\n|$)")
LONGEST = 2**31 / 1000  # seconds: ZooKeeper counts a session's in 31 bits of milliseconds
UNTOLD = 0.001  # seconds of a claim that does not say for how long it is


class Node(NamedTuple):
    """A claim's node, as its name tells."""

    child: str
    id: str
    weight: int
    capacity: int
    sequence: int


class Header(NamedTuple):
    """A claim's data."""

    ttl: float
    base: int
    payload: bytes


@lru_cache(maxsize=8192)
def folder(root: str, name: str) -> str:
    """Return the path under which the claims on a name are. A colon stands in front, since "." and
    ".." are no nodes.
    """
    return f"{root}/locks/{_bucket(name)}/:{quoted(name)}"


def records(root: str, name: str) -> str:
    """Return the path of the node that keeps the records of a name's bucket."""
    return f"{root}/breaks/{_bucket(name)}"


def quoted(name: str) -> str:
    """Write a name without a slash or a space."""
    return quote(name, safe="")


def _bucket(name: str) -> str:
    return f"{hashlib.blake2b(name.encode(), digest_size=1).digest()[0] % BUCKETS:02x}"


def buckets(root: str) -> list[str]:
    """Return the paths of all buckets."""
    return [f"{root}/locks/{number:02x}" for number in range(BUCKETS)]


def name_of(child: str) -> str:
    """Read a name back."""
    return unquote(child[1:])


def stem(ask: Ask) -> str:
    """Return the name of a claim's node, to which ZooKeeper adds the sequence."""
    if len(ask.id) != _ID or not ask.id.isalnum():
        raise ValueError(f"not the id of a claim: {ask.id!r}")
    return f"{ask.id}-{ask.shape.weight}-{ask.shape.capacity}-"


def packed(ask: Ask, base: int) -> bytes:
    """Write a claim's data."""
    return b"%d %d\n%b" % (round(ask.shape.ttl * 1000), base, ask.payload)


def unpacked(data: bytes | None) -> Header:
    """Read a claim's data. A stranger may have written anything: then it is shown as it is."""
    found = _HEADER.match(data or b"")
    if found is None:
        return Header(UNTOLD, 0, data or b"")
    ttl, base = int(found[1]) / 1000, int(found[2])
    return Header(
        ttl if 0.0 < ttl <= LONGEST else UNTOLD,
        base if base < LIMIT // 2 else 0,
        (data or b"")[found.end() :],
    )


def parse(child: str) -> Node | None:
    """Read the name of a node; None if it is not one of ours. A stranger's may say anything: a
    weight below one would make room for a second holder.
    """
    found = _NAME.fullmatch(child)
    if found is None:
        return None
    node = Node(child, found[1], int(found[2]), int(found[3]), int(found[4]))
    sane = 1 <= node.weight <= node.capacity <= _LAST and abs(node.sequence) <= _LAST + 1
    return node if sane else None


class Line:
    """The claims on one name, in the order of their arrival."""

    def __init__(self, children: Iterable[str], zxids: Mapping[str, int] | None = None) -> None:
        """Order them, by the transactions that created them if these are given, and apply the one
        rule.
        """
        nodes = [node for node in map(parse, children) if node is not None]
        nodes.sort(key=lambda node: zxids[node.child] if zxids else node.sequence)
        self.nodes = nodes
        self.worn = len(nodes) > 1 and any(
            node.sequence < 0 or node.sequence >= _LAST for node in nodes
        )
        """Whether the sequences do not tell the order any more: after 2**31 - 1 the server gives
        the same number again, or a negative one, or each in turn (trap 49)."""
        self.granted = 0
        """How many of them are granted: these are the first."""
        weight = 0
        for node in nodes:
            weight += node.weight
            # One of another capacity is about to be told so, and to leave: it holds nothing.
            if weight > node.capacity or node.capacity != nodes[0].capacity:
                break
            self.granted += 1

    def place(self, child: str) -> int | None:
        """Return how many stand ahead of a node; None if it is not there."""
        return next((n for n, node in enumerate(self.nodes) if node.child == child), None)

    def found(self, id_: str) -> Node | None:
        """Find a claim by its id."""
        return next((node for node in self.nodes if node.id == id_), None)

    def obstacles(self, place: int) -> list[Node]:
        """Choose whom a waiter watches: as few as possible, so that nobody is woken in vain, but so
        heavy that it cannot be let in before one of them has gone. For a lock, its predecessor.
        """
        mine = self.nodes[place]
        room = mine.capacity - mine.weight
        nearest = self.nodes[place - 1]
        if nearest.weight > room:
            return [nearest]
        chosen, weight = [], 0
        for node in sorted(self.nodes[place - 1 :: -1], key=lambda node: -node.weight):
            chosen.append(node)
            weight += node.weight
            if weight > room:
                break
        return chosen
