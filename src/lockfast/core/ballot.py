"""The ballot: how a claim wins a majority of independent nodes, and with which number.

A claim proposes a number to every node. A node accepts only a number above the highest that it has
accepted, and only while nobody holds the resource there. So two claims that each won a majority
have met in one node, and that node has seen the later number above the earlier: the number that a
majority has accepted is unique, and higher than that of every claim that was granted before this
one was proposed. It is the fencing token.
"""

from __future__ import annotations

import math
from collections import Counter
from enum import Enum


def quorum(nodes: int) -> int:
    """Return the smallest majority."""
    return nodes // 2 + 1


class Verdict(Enum):
    """What the answers of the nodes come to."""

    WON = "a majority has accepted"
    TAKEN = "another holds it, or may"
    SPLIT = "several have some nodes each, and none a majority"
    OUTBID = "the number was too low"
    UNREACHABLE = "too few nodes have answered"
    STRANGERS = "too few nodes are members"


WON, TAKEN, SPLIT, OUTBID, UNREACHABLE, STRANGERS = Verdict
GRACE = 0.02  # seconds for the rest to answer, once the claim cannot win: to tell who has it


class Ballot:
    """The answers to one proposal. A node that has not answered may have accepted."""

    __slots__ = ("failed", "holders", "lefts", "marks", "nodes", "outbid", "quorum", "strangers")

    def __init__(self, nodes: int) -> None:
        """Begin with no answer."""
        self.nodes = nodes
        self.quorum = nodes // 2 + 1
        self.lefts: dict[int, float] = {}
        """Who has accepted, and for how many seconds from the proposal."""
        self.holders: dict[int, tuple[str, float]] = {}
        """Who has it given to another: to whom, and for how much longer."""
        self.outbid: set[int] = set()
        self.strangers: set[int] = set()
        self.failed: set[int] = set()
        self.marks: dict[int, int] = {}
        """The highest number that a node has accepted, of those that have refused."""

    def refuse(self, node: int, mark: int) -> None:
        """Note that a node has accepted a higher number before."""
        self.outbid.add(node)
        self.marks[node] = mark

    def busy(self, node: int, mark: int, holder: str, left: float) -> None:
        """Note that a node has given it to another."""
        self.holders[node] = (holder, left)
        self.marks[node] = mark

    def highest(self, plausible: int, possible: int) -> int:
        """Return the highest mark of a node, above which the next proposal has to be.

        A mark above `plausible` is left out if a majority of those that have answered can be won
        without that node. One above `possible` counts only if two nodes have such a mark and a
        majority needs one of them: a garbled reply must not raise the numbers of all clients to
        the limit of tokens, since no claim could ever be numbered again.
        """
        spare = max(0, len(self.lefts) + len(self.marks) - self.quorum)
        strange = 0
        for mark in sorted(self.marks.values(), reverse=True):
            strange += mark > possible
            if mark <= plausible or (not spare and (mark <= possible or strange > 1)):
                return mark
            spare = max(0, spare - 1)
        return 0

    @property
    def silent(self) -> int:
        """How many nodes have not answered."""
        told = len(self.lefts) + len(self.holders) + len(self.outbid)
        return self.nodes - told - len(self.strangers) - len(self.failed)

    @property
    def loose(self) -> set[int]:
        """The nodes that have accepted, or may: a claim that lost must be withdrawn there."""
        return set(range(self.nodes)) - set(self.holders) - self.outbid - self.strangers

    @property
    def patience(self) -> float:
        """How many seconds more to wait for answers that could matter."""
        accepted = len(self.lefts)
        if accepted >= self.quorum:
            return 0.0
        silent = self.silent
        if not silent or (self.holders and self._most()[1] >= self.quorum):
            return 0.0
        return math.inf if accepted + silent >= self.quorum else GRACE

    @property
    def left(self) -> float:
        """For how many seconds a majority that has accepted keeps it."""
        return sorted(self.lefts.values(), reverse=True)[self.quorum - 1]

    @property
    def free_in(self) -> float:
        """After how many seconds so few keep it for others that a majority can be won."""
        lefts = sorted(left for _, left in self.holders.values())
        index = len(lefts) - (self.nodes - self.quorum) - 1
        return lefts[index] if index >= 0 else 0.0

    @property
    def verdict(self) -> Verdict:
        """Decide."""
        if len(self.lefts) >= self.quorum:
            return WON
        most = self._most()[1]
        if most >= self.quorum:
            return TAKEN
        spare = self.nodes - self.quorum  # so many may be missing
        dumb = len(self.failed) + self.silent
        if dumb + len(self.strangers) > spare:
            return STRANGERS if len(self.strangers) > spare else UNREACHABLE
        if len(self.lefts) + len(self.outbid) >= self.quorum:
            return OUTBID
        return SPLIT if most + dumb < self.quorum else TAKEN

    def leader(self) -> str | None:
        """Name whoever has the most nodes, if anybody has one."""
        return self._most()[0]

    def _most(self) -> tuple[str | None, int]:
        counts = Counter(holder for holder, _ in self.holders.values())
        return counts.most_common(1)[0] if counts else (None, 0)
