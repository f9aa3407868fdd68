"""The campaign: runs of the torture, added up over sessions. campaign.jsonl has a line for each
stretch: the runs of one scenario in one set-up, at one commit, that were added together.

Nobody changes a line but to say what caused a violation, under "cause".
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.robustness import killed
from tests.robustness.checkers.carried import BUSY
from tests.robustness.scenario import load, names
from tests.robustness.sites import SITES

PATH = Path(__file__).with_name("campaign.jsonl")


class NothingNewError(Exception):
    """A folder has no run that is not in the ledger."""


class Found(NamedTuple):
    """One run in a folder: what tells it from all others, and what its result says."""

    digest: str
    said: dict[str, Any]


class Campaign:
    """The lines of the ledger."""

    def __init__(self, stretches: Iterable[dict[str, Any]] = ()) -> None:
        self.stretches = list(stretches)

    @staticmethod
    def read(path: Path = PATH) -> Campaign:
        """Read them."""
        return Campaign(json.loads(line) for line in path.read_text("utf-8").splitlines())

    def write(self, path: Path = PATH) -> None:
        """Write them."""
        path.write_text("".join(f"{json.dumps(each)}\n" for each in self.stretches), "utf-8")

    @property
    def seeds(self) -> set[int]:
        """The seeds of all runs."""
        return {seed for each in self.stretches for seed in each["seeds"]}

    def add(self, folder: Path) -> int:
        """Add the runs of a folder that were not added before, and tell how many they were."""
        known = {digest for each in self.stretches for digest in each["results"]}
        runs = [run for run in found(folder) if run.digest not in known]
        if not runs:
            raise NothingNewError(f"{folder} has no run that was not added before")
        together: dict[tuple[str, ...], list[Found]] = {}
        for run in runs:
            words = ("version", "scenario", "setup", "servers")
            together.setdefault(tuple(run.said.get(word, "") for word in words), []).append(run)
        self.stretches += [stretch(each) for _, each in sorted(together.items())]
        return len(runs)


def found(folder: Path) -> Iterator[Found]:
    """Read the runs of a folder of the torture. A run that has left no result is one too."""
    for run in sorted(path for path in folder.iterdir() if path.is_dir()):
        result = run / "result.json"
        if result.exists():
            raw = result.read_bytes()
            said = json.loads(raw)
        else:
            raw = f"{run.resolve()} {run.stat().st_mtime_ns}".encode()
            said = _unfinished(run)
        said.setdefault("date", time.strftime("%Y-%m-%d", time.gmtime(run.stat().st_mtime)))
        yield Found(hashlib.sha256(raw).hexdigest()[:12], said)


def _unfinished(run: Path) -> dict[str, Any]:
    """Return what is known of a run that was ended from outside."""
    scenario, _, seed = run.name.rpartition("-")
    told = "it was ended before its end, with all that it had found"
    return {
        "scenario": scenario,
        "seed": int(seed) if seed.isdecimal() else 0,
        "engine": "",
        "violations": [{"checker": "harness", "said": told}],
    }


def stretch(runs: list[Found]) -> dict[str, Any]:
    """Add up runs that have all in common but the seed."""
    first = runs[0].said
    counts: Counter[str] = Counter()
    counted: Counter[str] = Counter()
    busy = 0.0
    for _, said in runs:
        if not said["engine"]:
            continue
        counts["ended"] += 1
        counts["seconds"] += round(said["seconds"])
        counts["acquisitions"] += said["acquisitions"]
        counts["faults"] += sum(said["faults"].values())
        counts["lost"] += said["lost"]
        counts["lost_busy"] += said.get("lost_by", {}).get(BUSY, 0)
        counts["refused"] += said["writes"]["fenced"]["refused"]
        counts["stale"] += said["writes"]["unfenced"]["stale_applied"]
        counts["overlaps"] += said["overlaps"]["count"]
        counted.update(said.get("counted", {}))
        busy += said.get("busy", 0.0) * said["seconds"]
    return {
        "date": max(said["date"] for _, said in runs),
        "commit": first.get("version", ""),
        "scenario": first["scenario"],
        "engine": engine(first["scenario"]),
        "setup": first.get("setup", "default"),
        "servers": first.get("servers", ""),
        "runs": len(runs),
        **{word: counts[word] for word in COUNTS},
        "busy": round(busy),
        "lost_busy": counts["lost_busy"],
        "violations": [
            {"run": digest, "seed": said["seed"], **violation, "cause": ""}
            for digest, said in runs
            for violation in said["violations"]
        ],
        "lapses": [
            {"run": digest, "seed": said["seed"], "said": said["lapse"]}
            for digest, said in runs
            if said.get("lapse")
        ],
        "counted": {name: count for name, count in sorted(counted.items()) if count},
        "seeds": [said["seed"] for _, said in runs],
        "results": [digest for digest, _ in runs],
    }


COUNTS = ("ended", "seconds", "acquisitions", "faults", "lost", "refused", "stale", "overlaps")


def engine(scenario: str) -> str:
    """Tell the engine of a scenario, also of one whose run has told nothing."""
    if scenario == killed.NAME:
        return "sqlite"
    return SITES[load(scenario).site].engine if scenario in names() else "unknown"
