"""The wait graph as a picture: boxes from left to right, each to the right of what it waits for."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from lockfast.primitives.lock import Holder
from lockfast.show.claims import bearer, described
from lockfast.show.graph import Branch
from lockfast.web.drawing.text import fitting

WIDE, HIGH = 264, 64
ACROSS, DOWN = 84, 14  # between two boxes
MARGIN = 12
COLUMNS = 30  # of text in a box
BELOW = 26  # for a line that goes back below the boxes
BOXES = 80  # that are drawn; the others are counted


Place = tuple[int, int]


class Box(NamedTuple):
    """A thread or task, with what it holds and waits for."""

    x: int
    y: int
    name: str
    holds: str
    waits: str
    whole: str
    """All of it, for a tooltip and for screen readers."""
    stuck: bool
    lock: str
    """The lock to which a click leads."""


class Line(NamedTuple):
    """A line from who waits to who holds."""

    path: str
    stuck: bool


class Note(NamedTuple):
    """A text beside the boxes."""

    x: int
    y: int
    words: str


class Picture(NamedTuple):
    """All of it."""

    width: int
    height: int
    boxes: Sequence[Box]
    lines: Sequence[Line]
    notes: Sequence[Note]
    left_out: int
    """How many locks with waiters are not in the picture."""
    cut: bool
    """Whether there are more waiters and holders than these."""


def drawn(trees: Sequence[Branch], stuck: Collection[str], *, left_out: int, cut: bool) -> Picture:
    """Return the picture of some trees. `stuck`: the ids of the waiting claims in deadlocks."""
    drawing = _Drawing(stuck)
    for tree in trees:
        if len(drawing.boxes) >= BOXES:
            cut = True
            break
        drawing.branch(tree)
    return Picture(
        drawing.right + MARGIN,
        drawing.bottom + MARGIN,
        drawing.boxes,
        drawing.lines,
        drawing.notes,
        left_out,
        cut or drawing.cut,
    )


class _Drawing:
    def __init__(self, stuck: Collection[str]) -> None:
        self._stuck = stuck
        self._places: dict[str, Place] = {}
        """By id: where the box of a claim is, of one that waits or of one that its thread holds."""
        self._joined: set[tuple[Place, Place]] = set()
        """Between which boxes there is a line: from a waiter to a holder."""
        self._row = MARGIN
        self.boxes: list[Box] = []
        self.lines: list[Line] = []
        self.notes: list[Note] = []
        self.cut = False
        self.right = self.bottom = 0

    def branch(self, branch: Branch, depth: int = 0) -> None:
        """Draw a claim, and to its right all that wait for it."""
        place = MARGIN + depth * (WIDE + ACROSS), self._row
        self.boxes.append(self._box(branch, *place))
        for claim in (branch.claim, *branch.held):
            self._places[claim.id] = place
        self._groups(branch, place, depth)
        self._row = max(self._row, place[1] + HIGH + DOWN)
        self.right = max(self.right, place[0] + WIDE)
        self.bottom = max(self.bottom, self._row - DOWN)

    def _groups(self, branch: Branch, place: Place, depth: int) -> None:
        for group in branch.groups:
            for waiter in group.waiters:
                self._waiter(waiter, place, depth + 1)
            if group.more:
                x = place[0] + WIDE + ACROSS
                self.notes.append(Note(x, self._row + 14, f"and {group.more} more wait"))
                self.right = max(self.right, x + WIDE)
                self._row += 32

    def _waiter(self, waiter: Branch, holder: Place, depth: int) -> None:
        stuck = waiter.claim.id in self._stuck
        ids = (waiter.claim.id, *(claim.id for claim in waiter.held))
        known = next((self._places[id_] for id_ in ids if id_ in self._places), None)
        if known is not None and (known, holder) in self._joined:
            return
        if known is not None:  # its thread has a box already: the graph has a circle
            self._joined.add((known, holder))
            self._row = max(self._row, max(known[1], holder[1]) + HIGH + DOWN + BELOW)
            self.bottom = max(self.bottom, self._row - DOWN)
            self.lines.append(Line(_back(known, holder), stuck))
            self._tell(known, waiter)
            self._groups(waiter, known, depth)
        elif len(self.boxes) >= BOXES:
            self.cut = True
        elif not waiter.again:
            there = MARGIN + depth * (WIDE + ACROSS), self._row
            self._joined.add((there, holder))
            self.lines.append(Line(_forth(holder, there), stuck))
            self.branch(waiter, depth)

    def _tell(self, place: Place, waiter: Branch) -> None:
        """Write into a box that was drawn as a holder's for what its thread waits."""
        for number, box in enumerate(self.boxes):
            if (box.x, box.y) == place and not box.waits and not waiter.again:
                whole = self._box(waiter, *place)
                self.boxes[number] = whole._replace(holds=box.holds)

    def _box(self, branch: Branch, x: int, y: int) -> Box:
        claim = branch.claim
        held = [claim] if claim.granted else list(branch.held)
        holds = f"holds {_named(held)}" if held else ""
        waits = "" if claim.granted else f"waits for {claim.name}"
        return Box(
            x,
            y,
            fitting(f"{bearer(claim)} {claim.who.worker}", COLUMNS),
            fitting(holds, COLUMNS),
            fitting(waits, COLUMNS),
            ", ".join(filter(None, [described(claim), holds, waits])),
            claim.id in self._stuck,
            claim.name,
        )


def _named(held: Sequence[Holder]) -> str:
    return held[0].name + (f" and {len(held) - 1} more" if len(held) > 1 else "")


def _forth(one: Place, other: Place) -> str:
    """Return the path from a waiter, at the right, to the holder at the left."""
    x, y = other[0], other[1] + HIGH // 2
    ex, ey = one[0] + WIDE + 6, one[1] + HIGH // 2
    middle = (x + ex) // 2
    return f"M{x} {y} C{middle} {y} {middle} {ey} {ex} {ey}"


def _back(waiter: Place, holder: Place) -> str:
    """Return the path from a waiter that stands elsewhere already, below the boxes."""
    x, y = waiter[0] + WIDE // 2, waiter[1] + HIGH
    ex, ey = holder[0] + WIDE // 2, holder[1] + HIGH + 6
    low = max(y, ey) + BELOW
    return f"M{x} {y} C{x} {low} {ex} {low} {ex} {ey}"
