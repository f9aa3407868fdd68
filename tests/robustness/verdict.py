"""The verdict: every checker over one history, and the figures of a result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.robustness import checkers
from tests.robustness.checkers.chain import lost_updates
from tests.robustness.history import LAPSE, Kind, Outcome, Record
from tests.robustness.scenario import Scenario
from tests.robustness.traffic.register import Entry

Logs = Mapping[str, list[Entry]]
_FEW = 5  # of each kind of violation are told
_EFFECT = 1.0  # seconds after a fault in which a lost lease is put down to it


def stale_writes(log: Iterable[Entry]) -> int:
    """Count the writes of a log that came after one with a higher token."""
    count = highest = 0
    for entry in log:
        count += entry.token < highest
        highest = max(highest, entry.token)
    return count


def unserved(history: Iterable[Record], healed: float) -> list[str]:
    """Tell the kinds of work of which nothing was granted after the faults had stopped. Each wait
    may be short, if those who ask are turned away at once.
    """
    asked = [r for r in history if r.kind is Kind.ACQUIRE and r.ended > healed]
    granted = {_work(r) for r in asked if r.outcome is Outcome.OK}
    return [
        f"{work}: nobody was granted anything after the faults had stopped"
        for work in sorted({_work(r) for r in asked} - granted)
    ]


def _work(record: Record) -> str:
    return record.name.partition(":")[0]


def judge(  # noqa: PLR0913  # all that is known of a run
    scenario: Scenario,
    history: list[Record],
    fenced: Logs,
    bare: Logs,
    healed: float,
    *,
    busy: Sequence[tuple[float, float]] = (),
) -> dict[str, Any]:
    """Check all, and give what result.json says of it. `busy`: when the machine was too busy."""
    lapses = [record for record in history if record.name == LAPSE]
    faults = [r for r in history if r.kind is Kind.FAULT and r not in lapses]
    done = [record for record in faults if record.outcome is Outcome.OK]
    work = [record for record in history if record.kind is not Kind.FAULT]
    bound = scenario.ttl + scenario.delta
    found: dict[str, list[str]] = {name: [] for name in sorted({*checkers.ALL, "carried"})}
    for violation in checkers.check(history, fenced, checkers.Promises(bound=bound)):
        found[violation.checker].append(violation.said)
    if not lapses:
        found["recovers"] += unserved(work, healed)
    if scenario.carried:
        lost = checkers.carried(history, scenario.ttl, scenario.delta, busy)
        found["carried"] = [violation.said for violation in lost]
    order = found["ticket_order"]
    if not scenario.order:
        found["ticket_order"] = []
    overlaps = checkers.overlaps(history)
    # When a fault is over, its site may not yet serve: `healed` is when it did.
    waits = [wait.seconds for wait in checkers.waits(history) if wait.ended > healed]
    kinds = Counter((record.kind, record.outcome) for record in work)
    writes = Counter(
        (record.fenced, record.outcome) for record in work if record.kind is Kind.WRITE
    )
    lengths = [overlap.seconds for overlap in overlaps]
    return {
        "acquisitions": kinds[Kind.ACQUIRE, Outcome.OK],
        "releases": kinds[Kind.RELEASE, Outcome.OK],
        "lost": kinds[Kind.LOST, Outcome.OK],
        "lost_by": checkers.lost_by(history, scenario.ttl, _EFFECT, busy),
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
        "lapse": "; ".join(record.value for record in lapses),
        "overlaps": {
            "count": len(overlaps),
            "longest": round(max(lengths, default=0.0), 3),
            "rightful": sum(overlap.rightful for overlap in overlaps),
            "where_allowed": all(overlap.allowed for overlap in overlaps),
        },
        "by_fault": checkers.by_fault(history, scenario.ttl),
        "grants_in_order": not order,
        "recovery": {"longest": round(max(waits, default=0.0), 3), "bound": bound},
        "violations": [
            {"checker": checker, "said": said}
            for checker, told in found.items()
            if checker not in scenario.counted
            for said in told[:_FEW]
        ],
        "counted": {name: len(found[name]) for name in scenario.counted},
    }
