"""A history: what clients did and were told, in the order of one unshifted monotonic clock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from pathlib import Path

LAPSE = "lapse"
"""The name of a fault that nobody made: the engine lost what it had acknowledged."""


class Kind(StrEnum):
    """What a record is about."""

    ACQUIRE = "acquire"
    RELEASE = "release"
    SEAL = "seal"
    """A holder shows its token to the guarded resource, before it reads."""
    WRITE = "write"
    LOST = "lost"
    FAULT = "fault"


class Outcome(StrEnum):
    """How it ended."""

    OK = "ok"
    NO = "no"
    """It surely had no effect: refused, timed out and resigned, stale."""
    UNKNOWN = "unknown"
    """It may have taken effect, at any later time."""


@dataclass(frozen=True, slots=True)
class Record:
    """One operation of one client, with both ends. Times are seconds of CLOCK_MONOTONIC."""

    client: str
    kind: Kind
    name: str
    began: float
    ended: float
    outcome: Outcome
    token: int = 0
    id: str = ""
    value: str = ""
    """What a write wrote, or what a fault was."""
    weight: int = 1
    capacity: int = 1
    until: float = 0.0
    """Until when the client believed to hold, at the end of the operation."""
    fenced: bool = True
    """Whether the resource written to checks tokens."""
    extra: dict[str, str] = field(default_factory=dict)


_OPTIONAL = {each.name: each.default for each in fields(Record)}


def dumped(record: Record) -> str:
    """Write a record as one line. What is as always is left out: there are many lines."""
    said = {name: getattr(record, name) for name in _OPTIONAL}
    told = {name: value for name, value in said.items() if value != _OPTIONAL[name] and value != {}}
    return json.dumps(told, separators=(",", ":"))


def read(lines: Iterable[str]) -> Iterator[Record]:
    """Read records; a torn last line of a client that was killed is left out."""
    for line in lines:
        if not line.endswith("\n"):
            return
        said = json.loads(line)
        yield Record(
            **{**said, "kind": Kind(said["kind"]), "outcome": Outcome(said["outcome"])},
        )


def settled(records: Iterable[Record]) -> list[Record]:
    """Leave out what was only begun if its end is known too.

    A client writes an UNKNOWN record when it begins what may take effect without it, and a second
    one when it was told. One that was killed in between has left the first.
    """
    found: dict[tuple[str, Kind, str, float], Record] = {}
    for record in records:
        key = record.client, record.kind, record.name, record.began
        if key not in found or found[key].outcome is Outcome.UNKNOWN:
            found[key] = record
    return list(found.values())


NOTHING: Mapping[Path, int] = {}


def sizes(folder: Path) -> dict[Path, int]:
    """Return how many bytes every client has written until now, in whole lines."""
    return {path: path.read_bytes().rfind(b"\n") + 1 for path in folder.glob("*.jsonl")}


def gathered(folder: Path, after: Mapping[Path, int] = NOTHING) -> list[Record]:
    """Read every client's file, and put all records into the order in which they began.

    `after`: what `sizes` returned; older lines are left out. To read all of them takes seconds, in
    which the proxies that run in this process stand still, and with them the traffic.
    """
    records: list[Record] = []
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8") as lines:
            lines.seek(after.get(path, 0))
            records += read(lines)
    return sorted(settled(records), key=lambda record: (record.began, record.ended))
