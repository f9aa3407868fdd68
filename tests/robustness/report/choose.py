"""Choose the moments that are shown: few, each the best of its kind, from different engines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tests.robustness.moments import FAILOVERS, Moment
from tests.robustness.report.results import Run

EACH = 2  # of each kind


class Chosen(NamedTuple):
    """One moment of one run."""

    run: Run
    moment: Moment

    @property
    def file(self) -> str:
        said = self.run.said
        return f"{self.moment.why}-{said['scenario']}-{said['seed']}.svg"


def choose(among: Iterable[Run]) -> list[Chosen]:
    """Give the best of each kind, and the best of another engine."""
    found: dict[str, list[Chosen]] = {"overlap": [], "refused": [], "failover": []}
    for run in among:
        if run.said.get("control") is None:
            for moment in run.moments:
                found[moment.why].append(Chosen(run, moment))
    chosen = []
    for each in found.values():
        engines: set[str] = set()
        for one in sorted(each, key=_rank):
            if len(engines) < EACH and one.run.said["engine"] not in engines:
                engines.add(one.run.said["engine"])
                chosen.append(one)
    return chosen


def _rank(one: Chosen) -> tuple[int, float]:
    """A failover by its kind first: one that lost data tells more than a pause."""
    moment = one.moment
    if moment.why != "failover":
        return 0, -moment.score
    names = {record.name for record in moment.records}
    return min(FAILOVERS.index(kind) for kind in FAILOVERS if kind in names), -moment.score
