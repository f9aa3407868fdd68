"""Translates lock names to paths, and a list of child nodes to a queue. No clock, no I/O.

A claim's node is named `<id>-<weight>-<capacity>-<sequence>`, so the list of children is enough to
decide which claims are granted. Its data is a line with the ttl and the token base, followed by the
payload.
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

BUCKETS = 64  # one list of all names could exceed the 1 MB that ZooKeeper sends
_ID = 32
_LAST = 2**31 - 1
# The server's counter overflows after 2**31 - 1, so a sequence may be negative (trap 49).
_NAME = re.compile(r"([0-9A-Za-z]{32})-([0-9]{1,10})-([0-9]{1,10})-(-?[0-9]{1,10})")
_HEADER = re.compile(rb"([0-9]{1,12}) ([0-9]{1,16})(?:\n|$)")
LONGEST = 2**31 / 1000  # seconds: ZooKeeper stores a session's timeout as 31 bits of milliseconds
UNTOLD = 0.001  # seconds: the ttl of a claim whose data names no valid ttl


class Node(NamedTuple):
    """A claim's node, with the values that its name contains."""

    child: str
    id: str
    weight: int
    capacity: int
    sequence: int


class Header(NamedTuple):
    """The data of a claim's node: the ttl in seconds, the token base and the payload."""

    ttl: float
    base: int
    payload: bytes


@lru_cache(maxsize=8192)
def folder(root: str, name: str) -> str:
    """Return the path of the node whose children are the claims on a name. Its last part begins
    with a colon, because ZooKeeper allows no nodes named "." and "..".
    """
    return f"{root}/locks/{_bucket(name)}/:{quoted(name)}"


def breaks(root: str) -> str:
    """Return the path of the node above all records of breaks."""
    return f"{root}/breaks"


def records(root: str, name: str) -> str:
    """Return the path of the node that keeps the break records of a name's bucket."""
    return f"{breaks(root)}/{_bucket(name)}"


def quoted(name: str) -> str:
    """Return a name in percent-encoding, without slashes and spaces."""
    return quote(name, safe="")


def _bucket(name: str) -> str:
    return f"{hashlib.blake2b(name.encode(), digest_size=1).digest()[0] % BUCKETS:02x}"


def buckets(root: str) -> list[str]:
    """Return the paths of all buckets."""
    return [f"{root}/locks/{number:02x}" for number in range(BUCKETS)]


def name_of(child: str) -> str:
    """Return the lock name that a child of a bucket stands for."""
    return unquote(child[1:])


def stem(ask: Ask) -> str:
    """Return the name of a claim's node without the sequence, which ZooKeeper appends."""
    if len(ask.id) != _ID or not ask.id.isalnum():
        raise ValueError(f"not the id of a claim: {ask.id!r}")
    return f"{ask.id}-{ask.shape.weight}-{ask.shape.capacity}-"


def packed(ask: Ask, base: int) -> bytes:
    """Return the data for a claim's node."""
    return b"%d %d\n%b" % (round(ask.shape.ttl * 1000), base, ask.payload)


def unpacked(data: bytes | None) -> Header:
    """Parse the data of a claim's node. Another program may have written anything there. Data
    without our header is returned whole, as the payload.
    """
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
    """Parse the name of a claim's node; None if it is not valid. Other programs can create nodes
    with any name, and a weight below 1 would make room for a second holder.
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
        """Sort the claims by `zxids`, the transactions that created them, or else by sequence. Then
        count how many of them the rule grants.
        """
        nodes = [node for node in map(parse, children) if node is not None]
        nodes.sort(key=lambda node: zxids[node.child] if zxids else node.sequence)
        self.nodes = nodes
        self.worn = len(nodes) > 1 and any(
            node.sequence < 0 or node.sequence >= _LAST for node in nodes
        )
        """True if the sequences no longer give the order. After 2**31 - 1 the server repeats that
        number, or gives a negative one, or alternates between the two (trap 49)."""
        self.granted = 0
        """How many claims are granted. They are the first ones in `nodes`."""
        weight = 0
        for node in nodes:
            weight += node.weight
            # A claim with another capacity than the head's is not granted. Its client gets
            # KindMismatch and removes it.
            if weight > node.capacity or node.capacity != nodes[0].capacity:
                break
            self.granted += 1

    def place(self, child: str) -> int | None:
        """Return how many claims are ahead of a node; None if it is not in the queue."""
        return next((n for n, node in enumerate(self.nodes) if node.child == child), None)

    def found(self, id_: str) -> Node | None:
        """Return the node of the claim with this id; None if it is not in the queue."""
        return next((node for node in self.nodes if node.id == id_), None)

    def obstacles(self, place: int) -> list[Node]:
        """Return the nodes that a waiter must watch. They are as few as possible, to avoid wake-ups
        in vain. Together they weigh so much that the waiter cannot be granted before one of them is
        deleted. For an exclusive lock this is the predecessor alone.
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
