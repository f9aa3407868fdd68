"""The recent history of a lock as a picture: a row for each claim, from its wait to its end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lockfast.web.claim import Lock
from lockfast.web.drawing.text import fitting
from lockfast.web.history import GRANTED, REFUSED, WAITS, Event, History

ROWS = 20  # claims; earlier ones are counted
HIGH = 22
LABELS, WIDE, RIGHT = 296, 360, 76
FOOT = 24
TICKS = 4
SHORTEST = 10.0  # seconds that the picture shows at least
WHO = 21  # columns: a program of ten letters, and its process id


class Part(NamedTuple):
    """From where to where."""

    x: float
    width: float


class Row(NamedTuple):
    """A claim."""

    y: int
    label: str
    who: str
    whole: str
    wait: Part | None
    hold: Part | None
    end: str
    """The kind of event that ended it; empty if it is still there."""
    mark: float | None
    """Where to write how it ended, if that is not the usual end."""


class Tick(NamedTuple):
    """A time on the axis."""

    x: float
    at: float


class Timeline(NamedTuple):
    """All of it."""

    width: int
    height: int
    rows: Sequence[Row]
    ticks: Sequence[Tick]
    gaps: Sequence[Part]
    more: int


class _Story:
    """What is known of a claim."""

    def __init__(self, event: Event) -> None:
        self.first = event
        self.waited = self.granted = self.ended = 0.0
        self.end = ""
        self.why = ""


def timeline(events: Sequence[Event], lock: Lock | None, history: History, now: float) -> Timeline:
    """Return the picture of a lock's events, and of the claims that it has now."""
    stories = _stories(events, lock, history)
    shown = sorted(stories.values(), key=_place)[-ROWS:][::-1]
    began = min((_began(story) for story in shown), default=now)
    scale = _Scale(min(began, now - SHORTEST), now)
    rows = [_row(story, number, scale, now) for number, story in enumerate(shown)]
    return Timeline(
        LABELS + WIDE + RIGHT,
        len(rows) * HIGH + FOOT,
        rows,
        [Tick(scale.x(at), at) for at in scale.ticks()],
        [scale.part(gap.began, gap.ended) for gap in history.gaps if gap.ended > scale.began],
        len(stories) - len(shown),
    )


def _stories(events: Sequence[Event], lock: Lock | None, history: History) -> dict[str, _Story]:
    """Return what is known of each claim, in the order in which they were first seen."""
    stories: dict[str, _Story] = {}
    for claim in lock.claims if lock else ():  # those that were there before anything was seen
        began = max(min(claim.since or history.since, history.since), history.since - 3600.0)
        kind = GRANTED if claim.granted else WAITS
        who = claim.who.service or claim.who.worker
        event = Event(
            kind, began, lock.name if lock else "", claim.id, claim.ticket, claim.exclusive, who
        )
        if not any(each.id == claim.id for each in events):
            stories[claim.id] = story = _Story(event)
            story.granted, story.waited = (began, 0.0) if claim.granted else (0.0, began)
    for number, event in enumerate(events):
        key = f"{REFUSED} {number}" if event.kind == REFUSED else event.id
        story = stories.setdefault(key, _Story(event))
        if event.kind == WAITS:
            story.waited = event.at
        elif event.kind == GRANTED:
            story.granted = event.at
        else:
            story.ended, story.end, story.why = event.at, event.kind, event.why
    return stories


def _place(story: _Story) -> tuple[int, float]:
    return story.first.ticket, story.first.at


def _began(story: _Story) -> float:
    return min(filter(None, (story.waited, story.granted, story.ended)))


class _Scale:
    def __init__(self, began: float, ended: float) -> None:
        self.began, self.ended = began, ended

    def x(self, at: float) -> float:
        share = (at - self.began) / (self.ended - self.began)
        return round(LABELS + WIDE * min(max(share, 0.0), 1.0), 1)

    def part(self, began: float, ended: float) -> Part:
        x = self.x(began)
        return Part(x, max(round(self.x(ended) - x, 1), 2.0))

    def ticks(self) -> list[float]:
        step = (self.ended - self.began) / TICKS
        return [self.began + step * number for number in range(TICKS + 1)]


def _row(story: _Story, number: int, scale: _Scale, now: float) -> Row:
    event = story.first
    ended = story.ended or now
    begun = story.granted or (0.0 if story.waited else scale.began)
    if story.end in {"left", REFUSED}:
        begun = story.granted
    wait = scale.part(story.waited, story.granted or ended) if story.waited else None
    hold = scale.part(begun, ended) if begun else None
    label = str(event.ticket) if event.ticket else ""
    marked = story.end in {"broken", "lost", "left", REFUSED}
    whole = f"{'token' if event.exclusive else 'ticket'} {label}, {event.who}"
    return Row(
        number * HIGH,
        fitting(label, 16),
        fitting(event.who, WHO),
        ", ".join(filter(None, [whole, story.end, story.why])),
        wait,
        hold,
        story.end,
        scale.x(ended) + 6 if marked else None,
    )
