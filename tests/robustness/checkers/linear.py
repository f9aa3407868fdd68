"""The fenced register as an object: the rule of the mark explains all that was told."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tests.robustness.checkers.search import INFINITY, Operation, unexplained
from tests.robustness.checkers.violation import Violation
from tests.robustness.checkers.writes import Log
from tests.robustness.history import Kind, Outcome, Record

Mark = tuple[int, str]
"""The highest token, and the claim that showed it."""


class Showing(Operation[Mark]):
    """A token is shown to the register, and let in or refused."""

    __slots__ = ("mark", "refused")

    def __init__(self, record: Record) -> None:
        ended = INFINITY if record.outcome is Outcome.UNKNOWN else record.ended
        said = f"{record.client}'s {record.kind} with token {record.token} was {record.outcome}"
        super().__init__(record.began, ended, said)
        self.mark = (record.token, record.id)
        self.refused = record.outcome is Outcome.NO

    def after(self, state: Mark) -> Mark | None:
        token = self.mark[0]
        if token > state[0]:
            return None if self.refused else self.mark
        if self.mark == state:
            return None if self.refused else state
        return state if self.refused else None

    def doomed(self, state: Mark) -> bool:
        return not self.refused and self.mark != state and self.mark[0] <= state[0]


def fenced_register(history: Iterable[Record], log: Log | None = None) -> list[Violation]:
    """The fenced accesses of each name can be put in one order that the rule of the mark explains.

    One that was acknowledged raised the mark or stood on it; one that was refused met a higher
    mark; one of unknown outcome may have taken effect at any later time, or never. What the
    resource applied and nobody recorded is one of those: its client was killed.
    """
    shown: dict[str, list[Record]] = defaultdict(list)
    for record in history:
        if record.kind in (Kind.SEAL, Kind.WRITE) and record.fenced:
            shown[record.name].append(record)
    for name, applied in (log or {}).items():
        known = {record.value for record in shown[name]}
        first = min((record.began for record in shown[name]), default=0.0)
        shown[name] += [
            Record("?", Kind.WRITE, name, first, first, Outcome.UNKNOWN, token, id_, value)
            for token, id_, value, _ in applied
            if value not in known
        ]
    wrong = []
    for name, records in sorted(shown.items()):
        found = unexplained((0, ""), [Showing(record) for record in records])
        if found is not None:
            said = f"{name}: no order of {len(records)} accesses explains that {found.said}"
            wrong.append(Violation("fenced_register", said, found.began, found.ended))
    return wrong
