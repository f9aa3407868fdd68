"""The resources: a counter behind a guard, and its twin without one."""

from __future__ import annotations

from collections.abc import Iterable

from lockfast.errors import StaleToken
from lockfast.guards import mark
from lockfast.guards.mark import Mark, Shown
from tests.robustness.simulation.votes import Votes
from tests.robustness.simulation.witness import Witness
from tests.robustness.simulation.world import Process


class Register:
    """A counter whose every access shows a token: the check and the write are one step."""

    def __init__(self, witness: Witness | Votes) -> None:
        self._witness = witness
        self._mark: Mark | None = None
        self.value = 0

    def seal(self, shown: Shown) -> int:
        """Raise the mark, then read."""
        self._admit(shown)
        return self.value

    def write(self, shown: Shown, read: int) -> int:
        """Write what was read plus one."""
        self._admit(shown)
        self._witness.written(shown, read, self.value)
        self.value = read + 1
        return self.value

    def reread(self, shown: Shown, read: int) -> int:
        """Read once more under the same grant."""
        self._admit(shown)
        self._witness.reread(shown, read, self.value)
        return self.value

    def _admit(self, shown: Shown) -> None:
        try:
            self._mark = mark.admit(self._mark, shown)
        except StaleToken:
            self._witness.refused(shown)
            raise
        self._witness.admitted(shown)


class Twin:
    """The same without a guard. What it loses shows what the run was like."""

    def __init__(self) -> None:
        self.value = 0
        self.lost = 0

    def read(self) -> int:
        return self.value

    def write(self, read: int) -> int:
        self.lost += read != self.value
        self.value = read + 1
        return self.value


class Place:
    """Where the resources are: a counter and its twin for each name."""

    def __init__(self, process: Process, witness: Witness | Votes, names: Iterable[str]) -> None:
        self.process = process
        self.resources = {name: (Register(witness), Twin()) for name in names}

    def lost(self) -> int:
        """Count what the twins lost."""
        return sum(twin.lost for _, twin in self.resources.values())
