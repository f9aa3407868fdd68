"""The ballot: how a claim wins a majority of independent nodes, and with which number.

A claim proposes a number to every node. A node accepts only a number above the highest that it has
accepted, and only while no other claim holds the resource there. Two claims that each won a
majority have at least one node in common, and that node accepted the later number above the
earlier. So the number that a majority has accepted is unique, and higher than that of every claim
that was granted before this one was proposed. It is the fencing token.
"""

from __future__ import annotations

import math
from collections import Counter
from enum import Enum


def quorum(nodes: int) -> int:
    """Return the size of the smallest majority."""
    return nodes // 2 + 1


class Verdict(Enum):
    """The outcome of a proposal, from the answers of the nodes."""

    WON = "a majority has accepted"
    TAKEN = "another holds it, or may"
    SPLIT = "several have some nodes each, and none a majority"
    OUTBID = "the number was too low"
    UNREACHABLE = "too few nodes have answered"
    STRANGERS = "too few nodes are members"


WON, TAKEN, SPLIT, OUTBID, UNREACHABLE, STRANGERS = Verdict
GRACE = 0.02  # seconds to wait for more answers when the claim cannot win: they name the holder


class Ballot:
    """The nodes' answers to one proposal. A node that has not answered may have accepted it."""

    __slots__ = ("failed", "holders", "lefts", "marks", "nodes", "outbid", "quorum", "strangers")

    def __init__(self, nodes: int) -> None:
        """Start without answers from any of `nodes` nodes."""
        self.nodes = nodes
        self.quorum = nodes // 2 + 1
        self.lefts: dict[int, float] = {}
        """The nodes that accepted, and for how many seconds from the proposal."""
        self.holders: dict[int, tuple[str, float]] = {}
        """The nodes where another claim holds the resource: its id, and the seconds it has left."""
        self.outbid: set[int] = set()
        self.strangers: set[int] = set()
        self.failed: set[int] = set()
        self.marks: dict[int, int] = {}
        """The nodes that refused, and the highest number that each has accepted."""

    def refuse(self, node: int, mark: int) -> None:
        """Note that a node refused, because the number is not above `mark`, its highest."""
        self.outbid.add(node)
        self.marks[node] = mark

    def busy(self, node: int, mark: int, holder: str, left: float) -> None:
        """Note that a node refused, because `holder` holds the resource for `left` more seconds."""
        self.holders[node] = (holder, left)
        self.marks[node] = mark

    def highest(self, plausible: int, possible: int) -> int:
        """Return the highest mark that counts. The next proposal must be above it. 0: none counts.

        A mark above `plausible` is left out if the other nodes that have answered can form a
        majority without that node. A mark above `possible` counts only if two nodes have such a
        mark and a majority needs one of them. Otherwise one garbled reply could raise the numbers
        of all clients to the limit of tokens, and no claim could get a number any more.
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
        """The number of nodes that have not answered."""
        told = len(self.lefts) + len(self.holders) + len(self.outbid)
        return self.nodes - told - len(self.strangers) - len(self.failed)

    @property
    def loose(self) -> set[int]:
        """The nodes that have or may have accepted. A claim that lost must be withdrawn there."""
        return set(range(self.nodes)) - set(self.holders) - self.outbid - self.strangers

    @property
    def patience(self) -> float:
        """How many more seconds to wait for answers. Infinity while the claim can still win."""
        accepted = len(self.lefts)
        if accepted >= self.quorum:
            return 0.0
        silent = self.silent
        if not silent or (self.holders and self._most()[1] >= self.quorum):
            return 0.0
        return math.inf if accepted + silent >= self.quorum else GRACE

    @property
    def left(self) -> float:
        """For how many seconds from the proposal a majority keeps the claim, once it has won."""
        return sorted(self.lefts.values(), reverse=True)[self.quorum - 1]

    @property
    def free_in(self) -> float:
        """In how many seconds enough claims of others expire for a majority to be free."""
        lefts = sorted(left for _, left in self.holders.values())
        index = len(lefts) - (self.nodes - self.quorum) - 1
        return lefts[index] if index >= 0 else 0.0

    @property
    def verdict(self) -> Verdict:
        """The outcome, from the answers so far."""
        if len(self.lefts) >= self.quorum:
            return WON
        most = self._most()[1]
        if most >= self.quorum:
            return TAKEN
        spare = self.nodes - self.quorum  # nodes that a majority can do without
        dumb = len(self.failed) + self.silent
        if dumb + len(self.strangers) > spare:
            return STRANGERS if len(self.strangers) > spare else UNREACHABLE
        if len(self.lefts) + len(self.outbid) >= self.quorum:
            return OUTBID
        return SPLIT if most + dumb < self.quorum else TAKEN

    def leader(self) -> str | None:
        """Return the id of the other claim that holds the most nodes, or None if none holds any."""
        return self._most()[0]

    def _most(self) -> tuple[str | None, int]:
        counts = Counter(holder for holder, _ in self.holders.values())
        return counts.most_common(1)[0] if counts else (None, 0)
