"""Translates lock names to paths, and a list of child nodes to a queue. No clock, no I/O.

A claim's node is named `<id>-<weight>-<format>_<kind>_<capacity>-<sequence>`, so the list of
children is enough to decide which claims are granted. Its data is a line with the ttl and the token
base, followed by the payload.

The capacity has ten digits, and underscores join it to the format and the kind, because of clients
of commit c0ff680, which wrote format 0. They read the third field with `int`, which ignores
underscores, and drop a node from their queue if that fails. So they read `1_1_0000000001` as the
capacity 110000000001. No claim of theirs can have that capacity, so they raise `CapacityMismatch`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote

from lockfast.core.record import FORMAT
from lockfast.core.token import LIMIT
from lockfast.port import Ask, Kind, fits_kind

BUCKETS = 64  # one list of all names could exceed the 1 MB that ZooKeeper sends
_ID = 32
_LAST = 2**31 - 1
# The server's counter overflows after 2**31 - 1, so a sequence may be negative (trap 49).
_NAME = re.compile(
    rf"([0-9A-Za-z]{{32}})-([0-9]{{1,10}})-{FORMAT}_([1-3])_([0-9]{{10}})-(-?[0-9]{{1,10}})"
)
_BARE = re.compile(r"([0-9A-Za-z]{32})-([0-9]{1,10})-([0-9]{1,10})-(-?[0-9]{1,10})")  # format 0
_OTHER = re.compile(r"([0-9A-Za-z]{32})-[^-/]+-([1-9][0-9]{0,8})_[^-/]*-(-?[0-9]{1,10})")
_KINDS = {str(kind.value): kind for kind in Kind}
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
    kind: Kind | None
    """None if the claim is stored in another format, or cannot be read. Then its weight and
    capacity are not known."""
    format: int = FORMAT


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
    shape = ask.shape
    return f"{ask.id}-{shape.weight}-{FORMAT}_{shape.kind:d}_{shape.capacity:010d}-"


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
    """Parse the name of a claim's node, also of a claim in another format. None if it is not valid.
    Other programs can create nodes with any name, and a weight below 1 would make room for a second
    holder.
    """
    found = _NAME.fullmatch(child)
    if found is None:
        return _parse_other(child)
    id_, weight, kind, capacity, sequence = found.groups()
    node = Node(child, id_, int(weight), int(capacity), int(sequence), _KINDS[kind])
    if not fits_kind(_KINDS[kind], node.capacity, node.weight):
        node = node._replace(kind=None, weight=1, capacity=0)
    return node if _counted(node.sequence) else None


def _parse_other(child: str) -> Node | None:
    """Parse the name of a claim's node that is stored in another format, or in ours with fields
    that we do not know; None if it is not valid. It must not be dropped, or a claim of ours would
    be granted beside it. So every later format keeps this shape: an id of 32 letters and digits, a
    field, a field that begins with the number of the format and an underscore, and the sequence.
    """
    found = _BARE.fullmatch(child)
    if found is not None:
        number, sane = 0, 1 <= int(found[2]) <= int(found[3]) <= _LAST
    else:
        found = _OTHER.fullmatch(child)
        if found is None:
            return None
        number, sane = int(found[2]), True
    sequence = int(found[found.re.groups])
    if not sane or not _counted(sequence):
        return None
    return Node(child, found[1], weight=1, capacity=0, sequence=sequence, kind=None, format=number)


def _counted(sequence: int) -> bool:
    """Return whether the server's counter can have this value."""
    return abs(sequence) <= _LAST + 1


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
        self.other = next((node.format for node in nodes if node.kind is None), None)
        """The format of a claim in another format than ours; None if there is no such claim."""
        self.granted = 0
        """How many claims are granted. They are the first ones in `nodes`."""
        weight = 0
        for node in nodes:
            weight += node.weight
            # A claim of another kind than the head's is not granted. Its client gets KindMismatch
            # and removes it. One in another format has capacity 0 here and is not granted either.
            if weight > node.capacity or node.kind is not nodes[0].kind:
                break
            self.granted += 1

    def place(self, child: str) -> int | None:
        """Return how many claims are ahead of a node; None if it is not in the queue."""
        return next((n for n, node in enumerate(self.nodes) if node.child == child), None)

    def found(self, id_: str) -> list[Node]:
        """Return the nodes of the claim with this id. There are two if it was sent by two engines,
        until the one that came later has removed its own.
        """
        return [node for node in self.nodes if node.id == id_ and node.kind]

    def obstacles(self, place: int) -> list[Node]:
        """Return the nodes that a waiter must watch: it cannot be granted before one of them is
        deleted. They are few, to avoid wake-ups in vain. For a lock this is the predecessor alone.

        A waiter that would fit may be behind another one, of a smaller capacity, that does not fit.
        Then it watches that other one, and the nodes that leave no room for it. If neither of the
        two fits, the smaller set is enough.
        """
        mine, nearest = self.nodes[place], self.nodes[place - 1]
        room = mine.capacity - mine.weight
        if nearest.kind is not mine.kind or nearest.weight > room:
            return [nearest]
        weight, tightest, least = 0, place, _LAST
        for number, node in enumerate(self.nodes[:place]):
            if node.kind is not mine.kind:
                return [node]  # while it is there, one of the two is not of the head's kind
            weight += node.weight
            if weight > node.capacity and node.capacity - node.weight <= least:
                tightest, least = number, node.capacity - node.weight
        own = self._weighing(place) if weight > room else []
        if own and (tightest == place or room <= least):
            return own
        behind = [self.nodes[tightest], *self._weighing(tightest)]
        return own if 0 < len(own) <= len(behind) else behind

    def _weighing(self, place: int) -> list[Node]:
        """Return nodes ahead of a waiter that together leave no room for it: its predecessor if
        that is enough, or else the heaviest ones, and of those the nearest.
        """
        room = self.nodes[place].capacity - self.nodes[place].weight
        if self.nodes[place - 1].weight > room:
            return [self.nodes[place - 1]]
        chosen, weight = [], 0
        for node in sorted(self.nodes[place - 1 :: -1], key=lambda node: -node.weight):
            chosen.append(node)
            weight += node.weight
            if weight > room:
                break
        return chosen
