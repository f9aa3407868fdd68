"""The stage: what a benchmark runs on, how it says where it is, and what it hands back."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benchmarks.against import Against, against

Figure: TypeAlias = "bool | float | str | Mapping[str, Figure]"
TICKS = 100.0
"""Units of CPU time per second in /proc: fixed by Linux for programs."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was measured: figures for programs, and a table for people."""

    figures: dict[str, Figure]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Stage:
    """Where a benchmark runs."""

    engine: str
    quick: bool

    @property
    def against(self) -> Against[Any]:
        """The engine's own side: how to start its servers, and who else is measured there."""
        return against(self.engine)

    def pick(self, full: float, quick: float) -> float:
        """Choose a size."""
        return quick if self.quick else full

    def count(self, full: int, quick: int) -> int:
        """Choose a number."""
        return quick if self.quick else full

    def say(self, text: str) -> None:
        """Show progress: over the same line again on a terminal."""
        end = "\x1b[K\r" if sys.stderr.isatty() else "\n"
        print(text, end=end, file=sys.stderr, flush=True)


def slug(name: str) -> str:
    """Write a contender's name as part of a figure's."""
    return re.sub(r"\W+", "_", name.lower())


def cpu_of(pids: Sequence[int]) -> float:
    """Give the CPU seconds that processes and their children have used, in user and kernel mode.

    PostgreSQL has a child for each connection. Those that have ended are in their parent's account.
    """
    return sum(_times(pid, 4) + sum(_times(each, 2) for each in _children(pid)) for pid in pids)


def _children(pid: int) -> list[int]:
    words = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return [int(word) for word in words]


def _times(pid: int, fields: int) -> float:
    """Add up user and system time, and with four fields those of the children that have ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):  # a child that has just ended
        return 0.0
    return sum(map(int, stat[11 : 11 + fields])) / TICKS


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Write a table: the first column to the left, figures to the right."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in [head, ["-" * width for width in widths], *rows]
    ]
    return "\n".join(lines)
