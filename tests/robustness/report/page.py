"""The page: what ran, what was measured, the pictures, and the track record, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.robustness.report import tables
from tests.robustness.report.choose import Chosen
from tests.robustness.report.results import Run, Sums, by_engine
from tests.robustness.report.timeline import timeline
from tests.robustness.report.track import track_record

_COUNTED = """\
Counted while a fault of that kind was in force, and for a ttl after it. What fell into two faults
counts for both. An empty cell did not run.
"""


_LOST = """\
Leases that ended before their clients released them, by what happened in the last one and a half
ttls. Column `service`: all runs of the lock service, whatever the engine behind it.
"""

_CONTROLS = """\
Each is our own code, broken on purpose, and must be caught. Or it is the twin without a fence.
"""


def page(
    among: Sequence[Run], chosen: Sequence[Chosen], controls: Sequence[Mapping[str, Any]]
) -> str:
    """Write it."""
    engines = by_engine(among)
    parts = ["# What was measured\n", _summary(among, engines)]
    parts += ["## What ran\n", tables.what_ran(engines)]
    parts += ["Faults, by kind and engine. Two at once count as two:\n", tables.faults(engines)]
    parts += [_violations(among)]
    if lost := tables.lost(engines):
        parts += ["## Lost leases\n", _LOST, lost]
    parts += [
        "## The guarantees, as measured\n",
        _COUNTED,
    ]
    for title, said, table in tables.guarantees(engines):
        parts += [f"### {title}\n", f"{said}\n", table]
    if controls:
        parts += ["## Controls\n", _CONTROLS, tables.controls(controls)]
    if chosen:
        parts += ["## Timelines\n", "[How to read them](index.md#how-to-read-a-timeline).\n"]
        parts += [_picture(each) for each in chosen]
    parts += ["## Track record\n", track_record()]
    return "\n".join(parts)


def _summary(among: Sequence[Run], engines: dict[str, Sums]) -> str:
    among = [run for run in among if run.said.get("control") is None]
    sums = list(engines.values())
    counts = {
        key: sum(each.counts[key] for each in sums)
        for key in ("acquisitions", "refused", "stale", "violations", "overlaps")
    }
    faults = sum(sum(each.faults.values()) for each in sums)
    versions = ", ".join(sorted({f"`{v}`" for run in among if (v := run.said.get("version"))}))
    hours = sum(each.counts["seconds"] for each in sums) / 3600
    return (
        f"{len(among)} runs of {hours:.1f} hours in all, at {versions or 'no commit'}: "
        f"{tables.number(counts['acquisitions'])} acquisitions under "
        f"{tables.number(faults)} faults; {tables.number(counts['refused'])} stale writes refused "
        f"by the fence, {tables.number(counts['stale'])} applied by the twin that has none; two at "
        f"work at once {tables.number(counts['overlaps'])} times; "
        f"**{tables.number(counts['violations'])} violations**.\n"
    )


def _violations(among: Sequence[Run]) -> str:
    found = [
        f"- {run.title}: `{violation['checker']}`: {tables.words(violation['said'])}\n"
        for run in among
        if run.said.get("control") is None
        for violation in run.said["violations"]
    ]
    return f"Violations:\n\n{''.join(found)}" if found else "There was no violation.\n"


def _picture(one: Chosen) -> str:
    line = timeline(one.moment, one.run.title)
    return f"### {line.title}\n\n![{line.told}]({one.file})\n"
