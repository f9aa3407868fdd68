"""Fleets that fit here: what the model predicts for each, against what it takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from benchmarks.planning import stored
from benchmarks.planning.model import needs
from benchmarks.scaling.connections import connections
from benchmarks.scaling.leases import in_a_cluster, in_redis
from benchmarks.scaling.point import Point, Used
from benchmarks.scaling.waiters import on_many_names, on_one_name
from benchmarks.stage import Figure, Result, Stage

LEAST, MOST = 0.7, 1.3
"""A prediction is good if it is so many times what was measured."""
UNITS = {
    "replica_cpu": ("replica, of a core", 1.0),
    "replica_memory": ("replica, MiB", 2.0**20),
    "engine_cpu": ("engine, of a core", 1.0),
    "engine_memory": ("engine, MiB", 2.0**20),
    "network": ("engine, kB/s", 1000.0),
    "client_network": ("clients, kB/s", 1000.0),
}


POINTS: dict[str, Callable[[Stage], Point]] = {
    "clients-1000": partial(connections, clients=1_000),
    "clients-5000": partial(connections, clients=5_000),
    "clients-15000": partial(connections, clients=15_000),
    "leases": in_redis,
    "leases-cluster": in_a_cluster,
    "waiters": on_one_name,
    "waiters-names": on_many_names,
}


QUICK = [name for name in POINTS if name not in {"clients-5000", "clients-15000"}]
"""A quick run would measure the same three times."""


class Match(NamedTuple):
    """A prediction, and what was measured."""

    predicted: float
    measured: float
    ratio: float


def run(stage: Stage, only: str | None = None) -> Result:
    """Measure all points, or only one."""
    costs = stored.read()[stage.engine]
    figures: dict[str, Figure] = {}
    rows: list[tuple[str, ...]] = []
    ratios: list[float] = []
    lost = 0
    names = QUICK if stage.quick else list(POINTS)
    for name in [only] if only else names:
        stage.say(name)
        point = POINTS[name](stage)
        needed = needs(point.fleet, costs)
        predicted = Used(*(getattr(needed, field) for field in Used._fields))
        matches = compared(predicted, point.used)
        ratios += [match.ratio for match in matches.values()]
        lost += point.lost
        rows += _rows(name, matches)
        said = {field: match._asdict() for field, match in matches.items()}
        figures[name] = {"lost": point.lost, **point.more, **said}
    good = sum(LEAST <= ratio <= MOST for ratio in ratios)
    about = {"lost": lost, "least_ratio": min(ratios), "most_ratio": max(ratios)}
    return Result(
        figures={**about, "good": good, "of": len(ratios), "points": figures},
        head=("", "predicted", "measured", "prediction/measurement"),
        rows=rows,
    )


def compared(predicted: Used, measured: Used) -> dict[str, Match]:
    """Compare what was used. A fleet without the service used no replica."""
    return {
        field: Match(_rounded(expected), _rounded(found), round(expected / found, 3))
        for field, expected, found in zip(Used._fields, predicted, measured, strict=True)
        if found
    }


def _rounded(value: float) -> float:
    return float(f"{value:.3g}")


def _rows(name: str, matches: dict[str, Match]) -> list[tuple[str, ...]]:
    return [
        (
            f"{name}: {UNITS[field][0]}",
            f"{match.predicted / UNITS[field][1]:,.3g}",
            f"{match.measured / UNITS[field][1]:,.3g}",
            f"{match.ratio:.2f}" + ("" if LEAST <= match.ratio <= MOST else " !"),
        )
        for field, match in matches.items()
    ]
