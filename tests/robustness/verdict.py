"""The verdict: every checker over one history, and the figures of a result."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tests.robustness import checkers
from tests.robustness.checkers.chain import lost_updates
from tests.robustness.history import Kind, Outcome, Record
from tests.robustness.scenario import Scenario
from tests.robustness.traffic.register import Entry

Logs = Mapping[str, list[Entry]]
_FEW = 5  # of each kind of violation are told


def recoveries(history: Iterable[Record], healed: float) -> dict[str, float]:
    """Tell how long each name was asked for in vain after the faults had stopped: until the first
    grant, less the time for which somebody rightly held it.
    """
    asked: dict[str, float] = {}
    granted: dict[str, float] = {}
    freed: dict[str, list[float]] = {}
    for record in history:
        if record.kind is Kind.ACQUIRE and record.ended > healed:
            asked[record.name] = min(asked.get(record.name, record.began), record.began)
            if record.outcome is Outcome.OK:
                granted[record.name] = min(granted.get(record.name, record.ended), record.ended)
        elif record.kind is Kind.RELEASE:
            freed.setdefault(record.name, []).append(record.ended)
    found = {}
    for name, began in asked.items():
        end = granted.get(name)
        if end is None:
            found[name] = float("inf")
            continue
        before = [each for each in freed.get(name, ()) if each <= end]
        found[name] = max(0.0, end - max(healed, began, *before))
    return found


def stale_writes(log: Iterable[Entry]) -> int:
    """Count the writes of a log that came after one with a higher token."""
    count = highest = 0
    for entry in log:
        count += entry.token < highest
        highest = max(highest, entry.token)
    return count


def judge(
    scenario: Scenario, history: list[Record], fenced: Logs, bare: Logs, healed: float
) -> dict[str, Any]:
    """Check all, and give what result.json says of it."""
    faults = [record for record in history if record.kind is Kind.FAULT]
    done = [record for record in faults if record.outcome is Outcome.OK]
    broken = {each for record in faults for each in record.extra["breaks"].split(",") if each}
    work = [record for record in history if record.kind is not Kind.FAULT]
    found: dict[str, list[str]] = {
        "tokens_unique": checkers.tokens_unique(work),
        "tokens_increase": checkers.tokens_increase(work),
        "fenced_register": checkers.fenced_register(work),
        "marks_never_fall": [],
        "applied_writes_are_owners": [],
        "lost_updates": [],
    }
    for name in sorted(fenced.keys() | {r.name for r in work if r.kind is Kind.WRITE}):
        log = fenced.get(name, [])
        plain = [entry[:3] for entry in log]
        mine = [record for record in work if record.name == name]
        found["marks_never_fall"] += checkers.marks_never_fall(plain)
        found["applied_writes_are_owners"] += checkers.applied_writes_are_owners(mine, plain)
        found["lost_updates"] += lost_updates([(entry.value, entry.saw) for entry in log])
    order = checkers.ticket_order(work)
    found["ticket_order"] = order if scenario.order else []
    overlaps = checkers.overlaps(work)
    found["overlaps"] = [] if broken else overlaps
    found["capacity"] = [] if broken else checkers.capacity(work)
    bound = scenario.ttl + scenario.delta
    waits = recoveries(work, healed)
    found["recovery"] = [
        f"{name}: nobody was granted for {waited:.2f} s after the faults had stopped"
        for name, waited in waits.items()
        if waited > bound
    ]
    kinds = Counter((record.kind, record.outcome) for record in work)
    writes = Counter(
        (record.fenced, record.outcome) for record in work if record.kind is Kind.WRITE
    )
    lengths = [float(each) for told in overlaps for each in re.findall(r"for ([\d.]+) s", told)]
    return {
        "acquisitions": kinds[Kind.ACQUIRE, Outcome.OK],
        "releases": kinds[Kind.RELEASE, Outcome.OK],
        "lost": kinds[Kind.LOST, Outcome.OK],
        "unknown": sum(n for (_, outcome), n in kinds.items() if outcome is Outcome.UNKNOWN),
        "writes": {
            "fenced": {
                "applied": sum(map(len, fenced.values())),
                "refused": writes[True, Outcome.NO],
                "unknown": writes[True, Outcome.UNKNOWN],
            },
            "unfenced": {
                "applied": sum(map(len, bare.values())),
                "stale_applied": sum(map(stale_writes, bare.values())),
                "lost_updates": sum(
                    len(lost_updates([(entry.value, entry.saw) for entry in log]))
                    for log in bare.values()
                ),
            },
        },
        "faults": dict(sorted(Counter(record.name for record in done).items())),
        "missed": len(faults) - len(done),
        "overlaps": {
            "count": len(overlaps),
            "longest": max(lengths, default=0.0),
            "where_allowed": bool(broken),
        },
        "grants_in_order": not order,
        "recovery": {"longest": max(waits.values(), default=0.0), "bound": bound},
        "violations": [
            {"checker": checker, "said": said}
            for checker, told in found.items()
            if checker not in scenario.counted
            for said in told[:_FEW]
        ],
        "counted": {name: len(found[name]) for name in scenario.counted},
    }
