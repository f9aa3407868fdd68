"""Moments: the few seconds of a run that are worth a picture, and what was recorded in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.robustness.checkers.belief import Overlap, overlaps
from tests.robustness.history import Kind, Outcome, Record, dumped, read

WRITTEN = ("register", "election")
"""What has a resource behind it: the names of its locks begin so."""
LONGEST = 4.0  # seconds; more cannot be read
AROUND = 0.4  # seconds before and after
FAILOVERS = (
    *("stale-failover", "cut-leader", "kill-server", "restart-empty", "pause-server"),
    "kill-replica",
)
"""Those that may change who serves; the first that there is in a run is shown."""


@dataclass(frozen=True)
class Moment:
    """One name, from when until when, and everything that touches it."""

    why: str
    """overlap, refused or failover."""
    score: float
    """Seconds of overlap, or refused writes: more is more interesting."""
    name: str
    began: float
    ended: float
    records: list[Record]

    def write(self, folder: Path) -> None:
        """Keep it as a history of its own, with a first record that says what it is."""
        folder.mkdir(parents=True, exist_ok=True)
        head = Record(
            *("moment", Kind.FAULT, self.name, self.began, self.ended, Outcome.OK),
            value=self.why,
            extra={"score": str(self.score)},
        )
        lines = [f"{dumped(record)}\n" for record in (head, *self.records)]
        (folder / f"{self.why}.jsonl").write_text("".join(lines), "utf-8")


def load(path: Path) -> Moment:
    """Read one that was kept."""
    with path.open(encoding="utf-8") as lines:
        head, *records = read(lines)
    score = float(head.extra["score"])
    return Moment(head.value, score, head.name, head.began, head.ended, records)


def moments(history: Sequence[Record]) -> Iterator[Moment]:
    """Choose at most three: the longest overlap, the most refused writes, a failover."""
    written = [
        record
        for record in history
        if record.kind is not Kind.FAULT and record.name.startswith(WRITTEN)
    ]
    broken = [record for record in history if record.kind is Kind.FAULT]
    shared = overlaps([*written, *broken])
    if shared:
        longest = max(shared, key=lambda overlap: overlap.seconds)
        began, ended = _around(longest)
        yield _cut("overlap", longest.seconds, longest.name, began, ended, history)
    refused = [r for r in written if r.kind is Kind.WRITE and r.outcome is Outcome.NO]
    if refused:
        first, count = max(((r, _near(r, refused)) for r in refused), key=lambda each: each[1])
        began = first.began - LONGEST / 2
        yield _cut("refused", count, first.name, began, began + LONGEST, history)
    for kind in FAILOVERS:
        struck = [record for record in broken if record.name == kind]
        if struck and written:
            fault = max(struck, key=lambda record: min(record.ended - record.began, LONGEST / 2))
            began = fault.began - 2 * AROUND
            name = _busiest(written, began, began + LONGEST)
            length = fault.ended - fault.began
            yield _cut("failover", length, name, began, began + LONGEST, history)
            return


def _around(overlap: Overlap) -> tuple[float, float]:
    ended = overlap.ended + 2 * AROUND
    return max(overlap.first.began - AROUND, ended - LONGEST), ended


def _near(record: Record, others: list[Record]) -> int:
    return sum(
        other.name == record.name and 0 <= other.began - record.began < LONGEST / 2
        for other in others
    )


def _busiest(written: list[Record], began: float, ended: float) -> str:
    names = [record.name for record in written if began < record.ended < ended] or [written[0].name]
    return max(sorted(set(names)), key=names.count)


def _cut(  # noqa: PLR0913, PLR0917  # the parts of a moment
    why: str, score: float, name: str, began: float, ended: float, history: Sequence[Record]
) -> Moment:
    """Cut it out: what overlaps it, and the whole of every claim that does."""
    mine = [record for record in history if record.name == name and record.kind is not Kind.FAULT]
    inside = {r.id for r in mine if r.id and r.ended >= began and r.began <= ended}
    # Who was granted before and is heard of only after it held all the time.
    grants = {r.id: r.ended for r in mine if r.kind is Kind.ACQUIRE and r.outcome is Outcome.OK}
    ends = {r.id: r.began for r in mine if r.kind in (Kind.RELEASE, Kind.LOST)}
    inside |= {id_ for id_, told in grants.items() if told < began and ends.get(id_, 0) > ended}
    records = [r for r in mine if r.id in inside]
    records += [
        r for r in history if r.kind is Kind.FAULT and r.ended >= began and r.began <= ended
    ]
    return Moment(why, score, name, began, ended, records)
