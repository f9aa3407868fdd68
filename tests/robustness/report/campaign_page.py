"""The page of the campaign: the sums by engine and set-up, every violation, every excuse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tests.robustness.report.campaign import COUNTS, Campaign
from tests.robustness.report.results import ENGINES
from tests.robustness.report.tables import number, plain, table, words

Stretch = dict[str, Any]

_HEAD = """\
# The campaign: all long runs, added up

This page adds up the runs of `make torture` over time: the same faults on the same engines as in
[what was measured](report.md), with more seeds, other versions of the servers, TLS, and PgBouncer.
Use it to see how much each set-up was tested, and what was found.
`python -m tests.robustness.report --add` writes it.
"""
_BEFORE = """\
The rows "all of the time" are the runs in [what was measured](report.md), from before the campaign.
The set-up `default` is the servers of Debian 12, without TLS.
"""
_VIOLATIONS = """\
Every violation that a checker has reported in any of these runs, and every run that did not come to
its end:
"""
_EXCUSED = """\
These findings are not violations, for the reasons on
[the page about the tests](index.md#what-is-tested):
"""
_COLUMNS = ("runs", *(word for word in COUNTS if word not in {"ended", "seconds"}), "violations")
_TITLES = {
    "lost": "leases lost",
    "refused": "stale writes rejected",
    "stale": "applied by the twin",
}


def page(campaign: Campaign) -> str:
    """Write it."""
    stretches = campaign.stretches
    violations = _listed(stretches, "violations")
    parts = [_HEAD, _summary(stretches), "## By engine\n", _by_engine(stretches)]
    parts += ["## By scenario and set-up\n", _BEFORE, _by_setup(stretches), "## Violations\n"]
    parts += [_VIOLATIONS, _violations(violations)] if violations else ["There was none.\n"]
    if excused := _excused(stretches):
        parts += ["## Findings that are excused\n", _EXCUSED, excused]
    parts += ["## Dates and commits\n", _dates(stretches)]
    return "\n".join(parts)


def _sums(among: Iterable[Stretch]) -> Counter[str]:
    sums: Counter[str] = Counter()
    for each in among:
        sums.update({word: each[word] for word in ("runs", "busy", *COUNTS)})
        sums["violations"] += len(each["violations"])
    return sums


def _groups(among: Iterable[Stretch], word: Callable[[Stretch], Any]) -> dict[Any, list[Stretch]]:
    groups: dict[Any, list[Stretch]] = {}
    for each in among:
        groups.setdefault(word(each), []).append(each)
    return groups


def _cells(among: Iterable[Stretch]) -> list[str]:
    among = list(among)
    sums = _sums(among)
    busy = "" if any(each.get("before") for each in among) else _busy(sums)
    return [*(number(sums[word]) for word in _COLUMNS), busy]


def _busy(sums: Counter[str]) -> str:
    return f"{sums['busy'] / max(sums['seconds'], 1):.0%}"


def _titles() -> list[str]:
    return [*(_TITLES.get(word, word) for word in _COLUMNS), "machine too busy"]


def _summary(stretches: Sequence[Stretch]) -> str:
    sums = _sums(stretches)
    unexplained = sum(not each["cause"] for _, each in _listed(stretches, "violations"))
    own = _sums(each for each in stretches if not each.get("before"))
    return (
        f"**{number(sums['runs'])} runs of {sums['seconds'] / 3600:.1f} hours: "
        f"{number(sums['acquisitions'])} acquisitions under {number(sums['faults'])} faults, "
        f"{number(sums['violations'])} violations, of which {number(unexplained)} have no "
        f"explanation.** {number(sums['runs'] - sums['ended'])} runs did not come to their end. "
        f"In the {number(own['runs'])} runs of the campaign itself, the machine was too busy in "
        f"{_busy(own)} of the time. "
        "The goal is 10,000,000 acquisitions under 20,000 faults.\n"
    )


def _by_engine(stretches: Sequence[Stretch]) -> str:
    groups = _groups(stretches, lambda each: each["engine"])
    order = [*ENGINES, *sorted(groups)]
    rows = [[name, *_cells(groups[name])] for name in sorted(groups, key=order.index)]
    return table(["engine", *_titles()], [*rows, ["all", *_cells(stretches)]])


def _by_setup(stretches: Sequence[Stretch]) -> str:
    groups = _groups(stretches, lambda each: (each["scenario"], each["setup"], each["engine"]))
    rows = [
        [
            f"{scenario} ({engine})" if each[0].get("before") else scenario,
            setup,
            "; ".join(sorted({one["servers"] for one in each} - {""})),
            *_cells(each),
        ]
        for (scenario, setup, engine), each in sorted(groups.items())
    ]
    lines = table(["scenario", "set-up", "servers", *_titles()], rows).splitlines(keepends=True)
    # The servers are words too.
    lines[1] = lines[1].replace("| --- | ---: | ---: |", "| --- | --- | --- |", 1)
    return "".join(lines)


def _listed(stretches: Iterable[Stretch], what: str) -> list[tuple[Stretch, dict[str, Any]]]:
    return [(each, one) for each in stretches for one in each[what]]


def _violations(among: Iterable[tuple[Stretch, dict[str, Any]]]) -> str:
    rows = [
        [
            f"{each['scenario']}, {each['setup']}, seed {one['seed']}",
            f"`{one['checker']}`",
            words(one["said"]).replace("\n", " "),
            words(one["cause"]) or "**not explained yet**",
        ]
        for each, one in among
    ]
    return plain(["run", "checker", "what it said", "cause"], rows)


def _excused(stretches: Sequence[Stretch]) -> str:
    rows = [
        [f"{each['scenario']}, {each['setup']}, seed {one['seed']}", f"lapse: {words(one['said'])}"]
        for each, one in _listed(stretches, "lapses")
    ]
    groups = _groups(stretches, lambda each: f"{each['scenario']}, {each['setup']}")
    rows += [
        [name, f"{number(lost)} leases lost while the machine was too busy: no checker judged them"]
        for name, each in sorted(groups.items())
        if (lost := sum(one["lost_busy"] for one in each))
    ]
    counted: dict[str, Counter[str]] = {}
    for each in stretches:
        name = f"{each['scenario']}, {each['setup']}"
        counted.setdefault(name, Counter()).update(each["counted"])
    rows += [
        [name, ", ".join(f"`{checker}` {number(n)}" for checker, n in sorted(counts.items()))]
        for name, counts in sorted(counted.items())
        if counts
    ]
    return plain(["where", "what"], rows) if rows else ""


def _dates(stretches: Sequence[Stretch]) -> str:
    groups = _groups(stretches, lambda each: (each["date"], each["commit"]))
    rows = [
        [f"{date}, `{commit}`", *_cells(each)] for (date, commit), each in sorted(groups.items())
    ]
    return table(["date, commit", *_titles()], rows)
