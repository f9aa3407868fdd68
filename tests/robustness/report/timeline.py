"""A timeline: one moment as rows, bars, bands and dots, not yet drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.robustness.checkers.belief import beliefs
from tests.robustness.history import Kind, Outcome, Record
from tests.robustness.moments import Moment

SERVERS = "servers"


class Bar(NamedTuple):
    """Somebody held, or thought so."""

    row: str
    began: float
    until: float
    """The right to believe ends."""
    ended: float
    """It lets go, or is not heard of any more."""
    number: int


class Band(NamedTuple):
    """A fault was in force."""

    row: str
    began: float
    ended: float
    label: str


class Dot(NamedTuple):
    """A write came to the resource."""

    row: str
    """Who wrote."""
    at: float
    fenced: bool
    number: int
    stale: bool
    """Refused by the fence; or, at the twin, applied although the fence refused it."""


class Timeline(NamedTuple):
    """What is drawn. Times are seconds from its beginning."""

    title: str
    said: str
    seconds: float
    rows: list[str]
    bars: list[Bar]
    bands: list[Band]
    dots: list[Dot]
    first: int
    """The token that is called 1."""

    @property
    def told(self) -> str:
        """Say in words what can be seen: for who cannot see it."""
        refused = sum(dot.stale and dot.fenced for dot in self.dots)
        late = sum(bar.ended > bar.until for bar in self.bars)
        faults = ", ".join(sorted({band.label for band in self.bands})) or "no fault"
        return (
            f"{len(self.rows)} clients, {len(self.bars)} grants, {late} of them at work beyond "
            f"their time; {faults}; {refused} stale writes refused by the fence"
        )


def worker(client: str) -> str:
    """Tell the row of a client: its lives share one."""
    return client.split(".", maxsplit=1)[0]


def timeline(moment: Moment, where: str) -> Timeline:
    """Lay a moment out."""
    start = moment.began
    seconds = moment.ended - start
    work = [record for record in moment.records if record.kind is not Kind.FAULT]
    held = [belief for each in beliefs(work).values() for belief in each]
    held = [belief for belief in held if belief.began <= moment.ended]
    writes = [r for r in work if r.kind is Kind.WRITE and start <= r.ended <= moment.ended]
    # A body that never asks goes on after the loss was told, until it lets go.
    last = {record.id: record.began for record in work if record.kind is Kind.RELEASE}
    tokens = sorted({each.token for each in held} | {each.token for each in writes})
    numbers = {token: i for i, token in enumerate(tokens, 1)}
    rows = sorted({worker(record.client) for record in work})
    bars = [
        Bar(
            worker(belief.client),
            max(belief.began - start, 0.0),
            min(max(belief.until, belief.began) - start, seconds),
            min(max(belief.ended, last.get(belief.id, 0.0)) - start, seconds),
            numbers[belief.token],
        )
        for belief in held
    ]
    faults = (record for record in moment.records if record.kind is Kind.FAULT)
    return Timeline(
        f"{_TITLES.get(moment.why, moment.why)}: {moment.name} on {where}",
        _said(moment),
        seconds,
        rows,
        sorted(bars, key=lambda bar: bar.began),
        [_band(fault, rows, start, seconds) for fault in faults],
        sorted(_dots(writes, numbers, start), key=lambda dot: dot.at),
        tokens[0] if tokens else 0,
    )


_TITLES = {
    "overlap": "The longest overlap",
    "refused": "The most refused writes",
    "failover": "A failover",
}


def _said(moment: Moment) -> str:
    if moment.why == "overlap":
        return f"two were at work at once for {moment.score:.2f} s"
    if moment.why == "refused":
        return f"{moment.score:.0f} stale write{'s' if moment.score > 1 else ''} in two seconds"
    faults = [r for r in moment.records if r.kind is Kind.FAULT]
    shown = min(faults, key=lambda fault: abs(fault.ended - fault.began - moment.score))
    return f"{shown.name} for {moment.score:.1f} s: {shown.value}"


def _band(fault: Record, rows: list[str], start: float, seconds: float) -> Band:
    row = next((row for row in rows if row in fault.value.split()), SERVERS)
    return Band(row, max(fault.began - start, 0.0), min(fault.ended - start, seconds), fault.name)


def _dots(writes: Iterable[Record], numbers: dict[int, int], start: float) -> Iterable[Dot]:
    writes = list(writes)
    refused = {write.value for write in writes if write.fenced and write.outcome is Outcome.NO}
    for write in writes:
        # One whose outcome is not known is not drawn: it may be anywhere.
        if write.outcome is not Outcome.UNKNOWN:
            yield Dot(
                worker(write.client),
                write.ended - start,
                write.fenced,
                numbers[write.token],
                write.value in refused,
            )
