"""Figures: what many runs came to, by engine, and whether it was enough."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

LEAST = {"redis": 20_000}
LEAST_ELSEWHERE = 3_000
LEAST_FAULTS = 5  # of each kind that was drawn for an engine
ADDED = ("acquisitions", "releases", "lost", "unknown", "missed", "pairs")


class Figures:
    """Sums over results, as they come."""

    def __init__(self) -> None:
        self._began = time.time()
        self._engines: dict[str, Counter[str]] = {}
        self._faults: dict[str, Counter[str]] = {}
        self._longest: dict[str, float] = {}
        self._runs: list[dict[str, Any]] = []
        self.broken: list[str] = []
        """Every violation, in words."""

    def add(self, result: dict[str, Any]) -> None:
        """Add one run."""
        where = f"{result['scenario']}/{result['seed']}"
        self.broken += [f"{where}: {v['checker']}: {v['said']}" for v in result["violations"]]
        engine = result["engine"]
        self._runs.append(
            {
                key: result[key]
                for key in ("scenario", "seed", "seconds", "acquisitions", "violations")
                if key in result
            }
        )
        if not engine:
            return
        sums = self._engines.setdefault(engine, Counter())
        sums.update({key: result[key] for key in ADDED})
        writes = result["writes"]
        sums.update({f"fenced {key}": count for key, count in writes["fenced"].items()})
        sums.update({f"unfenced {key}": count for key, count in writes["unfenced"].items()})
        sums.update(
            {
                "runs": 1,
                "overlaps": result["overlaps"]["count"],
                "violations": len(result["violations"]),
            }
        )
        self._faults.setdefault(engine, Counter()).update(result["faults"])
        longest = self._longest.get(engine, 0.0)
        self._longest[engine] = max(longest, result["recovery"]["longest"])

    def line(self, result: dict[str, Any]) -> str:
        """Say in one line how a run ended."""
        where = f"{result['scenario']}/{result['seed']}"
        bad = len(result["violations"])
        said = f"{bad} VIOLATIONS" if bad else "held"
        if not result["engine"]:
            return f"{where}: {said}"
        refused = result["writes"]["fenced"]["refused"]
        lapse = f"; {result['lapse']}" if result.get("lapse") else ""
        return (
            f"{where}: {said}; {result['acquisitions']} acquisitions, "
            f"{sum(result['faults'].values())} faults, {refused} stale writes refused, "
            f"{result['seconds']:.0f} s{lapse}"
        )

    def short(self) -> dict[str, list[str]]:
        """Tell by engine where there was less than a run of CI must have."""
        told: dict[str, list[str]] = {}
        for engine, sums in self._engines.items():
            least = LEAST.get(engine, LEAST_ELSEWHERE)
            if sums["acquisitions"] < least:
                told.setdefault(engine, []).append(
                    f"{engine}: {sums['acquisitions']} acquisitions, {least} are needed"
                )
            for kind, count in sorted(self._faults[engine].items()):
                if count < LEAST_FAULTS:
                    told.setdefault(engine, []).append(
                        f"{engine}: {kind} came {count} times, {LEAST_FAULTS} are needed"
                    )
        return told

    def summary(self) -> dict[str, Any]:
        """Give all as torture.json has it."""
        return {
            "hours": round((time.time() - self._began) / 3600, 3),
            "runs": len(self._runs),
            "acquisitions": sum(sums["acquisitions"] for sums in self._engines.values()),
            "faults": sum(sum(faults.values()) for faults in self._faults.values()),
            "stale_writes_refused": sum(s["fenced refused"] for s in self._engines.values()),
            "stale_writes_of_the_twin": sum(
                s["unfenced stale_applied"] for s in self._engines.values()
            ),
            "violations": self.broken,
            "engines": {
                engine: {
                    **dict(sorted(sums.items())),
                    "faults": dict(sorted(self._faults[engine].items())),
                    "longest_recovery": round(self._longest[engine], 3),
                }
                for engine, sums in sorted(self._engines.items())
            },
            "each": self._runs,
        }

    def table(self) -> str:
        """Give a table of the engines."""
        heads = ("engine", "runs", "acquisitions", "faults", "kinds", "pairs", "lost", "unknown")
        more = ("refused", "twin stale", "overlaps", "violations")
        rows: list[tuple[str, ...]] = [(*heads, *more)]
        for engine, sums in sorted(self._engines.items()):
            faults = self._faults[engine]
            rows.append(
                (
                    *(engine, *map(str, (sums["runs"], sums["acquisitions"]))),
                    *map(str, (sum(faults.values()), len(faults), sums["pairs"], sums["lost"])),
                    *map(str, (sums["unknown"], sums["fenced refused"])),
                    *map(str, (sums["unfenced stale_applied"], sums["overlaps"])),
                    str(sums["violations"]),
                )
            )
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        return "\n".join(
            "  ".join(word.rjust(width) for word, width in zip(row, widths, strict=True))
            for row in rows
        )
