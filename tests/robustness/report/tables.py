"""Tables: counts, not adjectives; an empty cell is one that did not run."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from typing import Any

from lockfast.plain import plain as harmless
from tests.robustness.checkers.carried import BUSY, CAUSES, OTHERS
from tests.robustness.report.results import Sums


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table in Markdown: words to the left, numbers to the right."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def plain(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table of words."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def words(text: str) -> str:
    """Write what somebody said so that it is neither Markdown nor HTML."""
    return re.sub(r"([\\`*_\[\]|!])", r"\\\1", escape(harmless(text), quote=False))


def number(count: int) -> str:
    """Write a number."""
    return f"{count:,}"


WHAT: dict[str, Callable[[Sums], str]] = {
    "runs": lambda sums: number(sums.counts["runs"]),
    "minutes": lambda sums: number(round(sums.counts["seconds"] / 60)),
    "acquisitions": lambda sums: number(sums.counts["acquisitions"]),
    "faults": lambda sums: number(sum(sums.faults.values())),
    "kinds of faults": lambda sums: number(len(sums.faults)),
    "leases lost": lambda sums: number(sums.counts["lost"]),
    "operations of unknown outcome": lambda sums: number(sums.counts["unknown"]),
    "fenced writes applied": lambda sums: number(sums.counts["applied"]),
    "stale writes refused by the fence": lambda sums: number(sums.counts["refused"]),
    "stale writes applied by the unfenced twin": lambda sums: number(sums.counts["stale"]),
    "times that two were at work at once": lambda sums: number(sums.counts["overlaps"]),
    "of these, both with a right to believe": lambda sums: number(sums.counts["rightful"]),
    "the longest of them, s": lambda sums: f"{sums.longest:.2f}",
    "longest wait for a free lock after faults, s": lambda sums: f"{sums.recovery:.2f}",
    "violations": lambda sums: number(sums.counts["violations"]),
}


def what_ran(engines: dict[str, Sums]) -> str:
    """One column for each engine."""
    rows = [[what, *(tell(sums) for sums in engines.values())] for what, tell in WHAT.items()]
    return table(["", *engines], rows)


def _kinds(engines: dict[str, Sums]) -> list[str]:
    return sorted({kind for sums in engines.values() for kind in sums.faults})


def faults(engines: dict[str, Sums]) -> str:
    """How often each kind of fault was in force."""
    rows = [
        [kind, *(number(sums.faults[kind]) if kind in sums.faults else "" for sums in all_)]
        for all_ in [list(engines.values())]
        for kind in _kinds(engines)
    ]
    return table(["fault", *engines], rows)


def lost(engines: dict[str, Sums]) -> str:
    """How many leases were lost, by what happened around the loss."""
    causes = [
        cause
        for cause in (*CAUSES, OTHERS, BUSY)
        if any(e.lost_by[cause] for e in engines.values())
    ]
    rows = [
        [cause, *(number(sums.lost_by[cause]) if sums.lost_by else "" for sums in engines.values())]
        for cause in causes
    ]
    return table(["what happened", *engines], rows) if rows else ""


def under_faults(engines: dict[str, Sums], part: str, whole: Callable[[Sums, str], int]) -> str:
    """So many of so many, while each kind of fault was in force and for a ttl after it."""
    rows = []
    for kind in _kinds(engines):
        cells = [
            f"{number(sums.under[kind][part])} of {number(whole(sums, kind))}"
            if kind in sums.under
            else ""
            for sums in engines.values()
        ]
        rows.append([kind, *cells])
    return table(["fault", *engines], rows)


def guarantees(engines: dict[str, Sums]) -> list[tuple[str, str, str]]:
    """Each promise, what is counted for it, and its table."""

    def grants(sums: Sums, kind: str) -> int:
        return sums.under[kind]["grants"]

    def writes(sums: Sums, kind: str) -> int:
        return sums.under[kind]["applied"] + sums.under[kind]["refused"]

    return [
        (
            "Tokens in order",
            "Tokens that were given twice or went back, of so many grants. Promised everywhere.",
            under_faults(engines, "out_of_order", grants),
        ),
        (
            "One holder at a time",
            (
                "Grants during which another had a right to believe, by its own clock, that it "
                "held too, of so many. Zero is promised where no clock was moved and no data was "
                "lost."
            ),
            under_faults(engines, "rightful", grants),
        ),
        (
            "Two at work at once",
            (
                "Grants during which another was still at work, whether it had a right to or not, "
                "of so many. Nobody can promise zero here: it is what a fence is for."
            ),
            under_faults(engines, "overlaps", grants),
        ),
        (
            "Stale writes refused",
            (
                "Writes that the fenced register refused, of so many that were tried. One below "
                "the mark that was applied would be a violation."
            ),
            under_faults(engines, "refused", writes),
        ),
    ]


def controls(found: Iterable[Mapping[str, Any]]) -> str:
    """Which mutants were caught, where, and by what."""
    rows = [
        [
            str(each["control"]),
            str(each["where"]),
            str(each["fault"]),
            f"`{each['checker']}`" if each["caught"] else "**not caught**",
            f"{each['seconds']:.0f}",
        ]
        for each in found
    ]
    return plain(["control", "where", "fault", "caught by", "seconds"], rows)
