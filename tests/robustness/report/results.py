"""Results: what the runs under some folders came to, added up by engine."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.robustness.moments import Moment, load

ENGINES = ("redis", "redlock", "etcd", "zookeeper", "postgres", "mysql", "service")


@dataclass(frozen=True)
class Run:
    """One run: what result.json says, and its moments."""

    said: dict[str, Any]
    moments: Sequence[Moment] = ()

    @property
    def title(self) -> str:
        return f"{self.said['scenario']}, seed {self.said['seed']}"


def runs(folders: Iterable[Path]) -> list[Run]:
    """Read all runs under the folders, in the order of scenarios and seeds."""
    found = []
    for folder in folders:
        for path in folder.rglob("result.json"):
            moments = [load(each) for each in sorted((path.parent / "moments").glob("*.jsonl"))]
            found.append(Run(json.loads(path.read_text("utf-8")), moments))
    return sorted(found, key=lambda run: (run.said["scenario"], run.said["seed"]))


def controls(folders: Iterable[Path]) -> list[dict[str, Any]]:
    """Read what the controls under the folders came to: tests/robustness/controls writes it."""
    return [
        verdict
        for folder in folders
        for path in sorted(folder.rglob("controls.json"))
        for verdict in json.loads(path.read_text("utf-8"))
    ]


@dataclass
class Sums:
    """What many runs on one engine came to."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    under: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """For each kind of fault: what was counted while it was in force."""
    lost_by: Counter[str] = field(default_factory=Counter)
    """Lost leases, by cause."""
    longest: float = 0.0
    """Seconds of the longest overlap."""
    recovery: float = 0.0

    def add(self, said: dict[str, Any]) -> None:
        """Add one run."""
        fenced, bare = said["writes"]["fenced"], said["writes"]["unfenced"]
        self.counts.update(
            {
                "runs": 1,
                "seconds": round(said["seconds"]),
                **{key: said[key] for key in ("acquisitions", "lost", "unknown")},
                "applied": fenced["applied"],
                "refused": fenced["refused"],
                "stale": bare["stale_applied"],
                "overlaps": said["overlaps"]["count"],
                "rightful": said["overlaps"].get("rightful", 0),
                "violations": len(said["violations"]),
            }
        )
        self.faults.update(said["faults"])
        self.lost_by.update(said.get("lost_by", {}))  # results of earlier versions have none
        for kind, counts in said.get("by_fault", {}).items():
            self.under[kind].update(counts)
        self.longest = max(self.longest, said["overlaps"]["longest"])
        self.recovery = max(self.recovery, said["recovery"]["longest"])


def by_engine(among: Iterable[Run]) -> dict[str, Sums]:
    """Add up, by engine; the engines in their usual order, then others. Controls do not count."""
    found: dict[str, Sums] = {}
    for run in among:
        if run.said.get("control") is None and run.said["engine"]:
            found.setdefault(run.said["engine"], Sums()).add(run.said)
    order = [*ENGINES, *sorted(found)]
    return dict(sorted(found.items(), key=lambda item: order.index(item[0])))
