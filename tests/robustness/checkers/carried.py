"""Leases that were lost, by the faults around the loss; none may be lost by a replica's death."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from tests.robustness.checkers.violation import Fault, Violation, Windows, faults
from tests.robustness.history import Kind, Outcome, Record

DEATHS = frozenset({"kill-replica", "drain-replica", "rolling-restart"})
"""What ends a replica of the lock service, while others run."""
CAUSES = {
    "no fault": frozenset[str](),
    "a replica died": DEATHS,
    "a replica was paused or cut off": DEATHS | {"pause-replica", "cut-replica"},
    "a client was paused or cut off": frozenset({"pause-client", "cut-client"}),
}
"""What explains a loss: the first whose kinds are all that happened."""
OTHERS = "other faults, or several"
BUSY = "the machine was too busy"
Spans = Sequence[tuple[float, float]]
_SINCE = 1.5  # ttls before the end of a lease, in which what has ended it began


def losses(
    history: Iterable[Record], ttl: float, delta: float, busy: Spans = ()
) -> Iterator[tuple[Record, frozenset[str]]]:
    """Give each lost lease, and the kinds of faults that may have cost it. `delta`: seconds for
    which a fault has effects when it is over. The death of a replica has none then. `busy`: when
    the machine was too busy.
    """
    history = list(history)
    done = faults(record for record in history if record.outcome is not Outcome.NO)
    crowds = [Fault(BUSY, frozenset(), *span) for span in busy]
    found = [*crowds, *(_with_effects(fault, delta) for fault in done)]
    windows = Windows(sorted(found, key=lambda fault: fault.began))
    for record in history:
        if record.kind is Kind.LOST:
            began = min(record.until, record.ended) - _SINCE * ttl
            yield record, frozenset(windows.kinds(began, record.ended))


def lost_by(
    history: Iterable[Record], ttl: float, delta: float, busy: Spans = ()
) -> dict[str, int]:
    """Count lost leases, by cause."""
    causes = [_cause(kinds) for _, kinds in losses(history, ttl, delta, busy)]
    return {cause: causes.count(cause) for cause in (*CAUSES, OTHERS, BUSY) if cause in causes}


def carried(
    history: Iterable[Record], ttl: float, delta: float, busy: Spans = ()
) -> list[Violation]:
    """No lease is lost because a replica died."""
    return [
        Violation(
            "carried",
            f"{record.name}: {record.client} (token {record.token}) lost it when nothing else had "
            f"happened than {', '.join(sorted(kinds))}",
            record.ended,
            record.ended,
        )
        for record, kinds in losses(history, ttl, delta, busy)
        if kinds and kinds <= DEATHS
    ]


def _cause(kinds: frozenset[str]) -> str:
    if BUSY in kinds:
        return BUSY
    return next((cause for cause, all_ in CAUSES.items() if kinds <= all_), OTHERS)


def _with_effects(fault: Fault, delta: float) -> Fault:
    return fault if fault.kind in DEATHS else fault._replace(ended=fault.ended + delta)
