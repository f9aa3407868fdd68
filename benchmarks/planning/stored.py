"""The file of the constants: one table for each engine, as `costs` wrote it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from benchmarks.planning.costs import Cost, Costs, Way

PATH = Path(__file__).with_name("costs.toml")
WAYS = ("direct", "service")


def read(path: Path = PATH) -> dict[str, Costs]:
    """Return the constants of all engines in a file. ValueError: it is none."""
    with path.open("rb") as file:
        found = tomllib.load(file)
    try:
        return {engine: _costs(engine, table) for engine, table in found.items()}
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} has no constants as `costs --save` writes them: {error}"
        ) from None


def store(engine: str, table: Mapping[str, Any], path: Path) -> None:
    """Put the constants of one engine into a file. Those of the others stay."""
    every = (read(path) if path.exists() else {}) | {engine: _costs(engine, table)}
    text = "\n".join(_table(each) for _, each in sorted(every.items()))
    path.write_text(f"# Written by `python -m benchmarks costs --save`.\n\n{text}", "utf-8")


def as_table(costs: Costs) -> dict[str, Any]:
    """Return the constants of one engine as they stand in the file."""
    return tomllib.loads(_table(costs))[costs.engine]  # type: ignore[no-any-return]


def _costs(engine: str, table: Mapping[str, Any]) -> Costs:
    return Costs(
        engine=engine,
        direct=_way(table["direct"]),
        service=_way(table["service"]),
        node=_cost(table["node"]),
        replica=_cost(table["replica"]),
        members=int(table["members"]),
        busiest=float(table["busiest"]),
        about={key: str(value) for key, value in table["about"].items()},
    )


def _way(table: Mapping[str, Any]) -> Way:
    values: dict[str, Any] = {
        name: _cost(value) if isinstance(value, Mapping) else float(value)
        for name, value in table.items()
    }
    return Way(**values)


def _cost(table: Mapping[str, float]) -> Cost:
    return Cost(**{name: float(value) for name, value in table.items()})


def _table(costs: Costs) -> str:
    lines = [f"[{costs.engine}]", f"members = {costs.members}", f"busiest = {costs.busiest:.3g}"]
    lines += [f"{name} = {_inline(cost)}" for name, cost in _both(costs)]
    lines += [f"\n[{costs.engine}.about]"]
    lines += [f'{key} = "{value}"' for key, value in costs.about.items()]
    for name in WAYS:
        way: Way = getattr(costs, name)
        lines += [f"\n[{costs.engine}.{name}]"]
        for field in fields(Way):
            value = getattr(way, field.name)
            said = _inline(value) if isinstance(value, Cost) else _number(value)
            lines.append(f"{field.name} = {said}")
    return "\n".join(lines) + "\n"


def _both(costs: Costs) -> tuple[tuple[str, Cost], ...]:
    return ("node", costs.node), ("replica", costs.replica)


def _inline(cost: Cost) -> str:
    given = {name: value for name, value in asdict(cost).items() if value}
    return "{ " + ", ".join(f"{name} = {_number(value)}" for name, value in given.items()) + " }"


def _number(value: float) -> str:
    """Three digits: more would be noise."""
    rounded = float(f"{value:.3g}")
    return f"{rounded:.0f}" if rounded == int(rounded) else f"{rounded:g}"
