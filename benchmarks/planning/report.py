"""A plan as text: what a fleet takes, what limits it, and what each number is based on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from benchmarks.planning.costs import Costs
from benchmarks.planning.limits import HEADROOM, rule_of
from benchmarks.planning.model import SPARE, Fleet, Needs
from benchmarks.stage import table

WIDTH = 80
SHOWN = 5  # limits


def report(fleets: Mapping[str, Fleet], found: Mapping[str, Needs], costs: Costs) -> str:
    """Write the plan of each way by its name, the one that was asked for first."""
    first = next(iter(found))
    parts = [
        _asked(fleets[first]),
        _overview(found, costs),
        _limits(first, found[first]),
        _reasons(first, found[first]),
        _footer(costs),
    ]
    return "\n\n".join(parts)


def as_json(found: Mapping[str, Needs], costs: Costs) -> dict[str, Any]:
    """Return the same for programs."""
    return {
        **{name: asdict(each) for name, each in found.items()},
        "measured": costs.about,
    }


def _asked(fleet: Fleet) -> str:
    text = (
        f"{fleet.clients:,} clients on {fleet.engine} hold {fleet.locks:,} locks with a ttl of "
        f"{fleet.ttl:g} s"
    )
    more = [f"{two(fleet.rate)} acquisitions/s"] if fleet.rate else []
    more += [f"{fleet.waiters:,} waiters"] if fleet.waiters else []
    return _wrapped(", ".join([text, *more]) + ".")


def _overview(found: Mapping[str, Needs], costs: Costs) -> str:
    rule = rule_of(costs.engine)
    rows = [
        ("replicas (processes)", *(str(each.replicas or "-") for each in found.values())),
        ("  cores used", *(two(each.replica_cpu) for each in found.values())),
        ("  memory", *(size(each.replica_memory) for each in found.values())),
        ("  network to clients", *(_rate(each.client_network) for each in found.values())),
        (f"engine: {rule.node}", *(f"{each.nodes:,}" for each in found.values())),
        ("  cores used", *(two(each.engine_cpu) for each in found.values())),
        ("  memory", *(size(each.engine_memory) for each in found.values())),
        ("  connections", *(two(each.engine_connections) for each in found.values())),
        ("  requests", *(f"{two(each.calls)}/s" for each in found.values())),
        ("  network", *(_rate(each.network) for each in found.values())),
        ("  written to disks", *(_rate(each.disk) for each in found.values())),
        ("limit met first", *(each.limit for each in found.values())),
    ]
    return table(("", *found), rows)


def _limits(name: str, needs: Needs) -> str:
    rows = [(each.name, two(each.units), each.why) for each in needs.limits[:SHOWN]]
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    lines = [f"  {a:{widths[0]}}  {b:>{widths[1]}}  {c}" for a, b, c in rows]
    head = f"How many replicas, or engines, each limit asks for ({name}):"
    return "\n".join([head, *lines])


def _reasons(name: str, needs: Needs) -> str:
    rows = [
        (
            each.what,
            two(each.count),
            *(_cores(each.cost.engine_us), _cores(each.cost.replica_us)),
            *(size(each.cost.engine_memory), size(each.cost.replica_memory)),
            each.constant,
        )
        for each in needs.reasons
    ]
    head = ("", "count or /s", "engine", "replica", "engine", "replica", "constant")
    return f"Cores, and memory, of each part ({name}):\n{table(head, rows)}"


def _footer(costs: Costs) -> str:
    about, engine = costs.about, costs.engine
    rule = rule_of(engine)
    measured = (
        f"The constants are those of one machine: {about.get('cores', '?')} cores, "
        f"{about.get('processor', '?')}, {engine} {about.get('engine', '?')}, Python "
        f"{about.get('python', '?')}, measured on {about.get('date', '?')} at commit "
        f"{about.get('commit', '?')}, from benchmarks/planning/costs.toml or --costs. The clients "
        "were on the same machine. Expect 30 % more or less on it, and measure your own: python -m "
        f"benchmarks costs --engine {engine} --save FILE, then plan --costs FILE."
    )
    spare = (
        f"A plan uses {HEADROOM:.0%} of a core, of memory, of file descriptors and of the network. "
        f"There is {SPARE} replica more than the load takes, so that one may die."
    )
    said = [measured, spare]
    if not rule.buckets:
        said.append(
            f"{engine} does not spread locks over {rule.node}: if more than one is needed, you "
            "split the names yourself. How far the work of one spreads over its cores was not "
            f"measured. {two(costs.direct.peak)} pairs/s were reached directly, and "
            f"{two(costs.service.peak)} through one replica, with the clients on the same cores."
        )
    return "\n\n".join(map(_wrapped, said))


def _wrapped(text: str) -> str:
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    return "\n".join(lines)


def two(value: float) -> str:
    """Write a number with the two digits that the constants justify."""
    if not value:
        return "-"
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:g}"


def _cores(micros: float) -> str:
    """Write microseconds for each second."""
    return "<0.01" if 0.0 < micros < 5_000.0 else two(round(micros / 1e6, 2))


def size(value: float) -> str:
    """Write bytes."""
    return "-" if not value else _scaled(value, ("B", "KB", "MB", "GB", "TB"))


def _rate(value: float) -> str:
    return "-" if not value else f"{size(value)}/s"


def _scaled(value: float, units: Iterator[str] | tuple[str, ...]) -> str:
    *smaller, last = units
    for unit in smaller:
        if value < 999.5:
            return f"{two(value)} {unit}"
        value /= 1000.0
    return f"{two(value)} {last}"
