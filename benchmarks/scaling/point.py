"""A point: a fleet that ran, and what it took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.idle import memory_of
from benchmarks.planning.model import Fleet
from benchmarks.stage import Figure
from tests.servers import Redis, Replica


class Used(NamedTuple):
    """What all replicas and all engine nodes took, with the names that the model has for it."""

    replica_cpu: float  # cores
    replica_memory: float  # bytes
    engine_cpu: float  # cores
    engine_memory: float  # bytes
    network: float  # bytes/s at the engine


@dataclass(frozen=True, slots=True)
class Point:
    """What was measured."""

    fleet: Fleet
    used: Used
    lost: int
    """Leases that ended, and waiters that were not granted in their turn."""
    more: dict[str, Figure] = field(default_factory=dict)
    """Figures that no model predicts."""


class Meter:
    """Measures servers while a fleet rests on them."""

    def __init__(self, engine: Sequence[Redis], replicas: Sequence[Replica] = ()) -> None:
        """Measure these."""
        self._engine = engine
        self._nodes = [node.pid for node in engine]
        self._replicas = [replica.pid for replica in replicas]

    def over(self, seconds: float) -> Used:
        """Wait for so long, and return what was taken meanwhile."""
        began, before = time.monotonic(), self._counts()
        time.sleep(seconds)
        taken = [b - a for a, b in zip(before, self._counts(), strict=True)]
        replicas, engine, network = (each / (time.monotonic() - began) for each in taken)
        return Used(
            replica_cpu=replicas,
            replica_memory=_memory(self._replicas),
            engine_cpu=engine,
            engine_memory=_memory(self._nodes),
            network=network,
        )

    def engine_cpu(self) -> float:
        """Return the seconds of CPU that the engine has used."""
        return _cpu(self._nodes)

    def _counts(self) -> tuple[float, float, float]:
        stats = [node.info("stats") for node in self._engine]
        ways = ("total_net_input_bytes", "total_net_output_bytes")
        network = sum(float(each[way]) for each in stats for way in ways)
        return _cpu(self._replicas), _cpu(self._nodes), network


def _memory(pids: Sequence[int]) -> float:
    return sum(memory_of(pid) for pid in pids) * 1024.0


def _cpu(pids: Sequence[int]) -> float:
    """Read the CPU clocks of the processes. /proc has hundredths of a second: a thousand clients
    cost an engine less than one of them in a second.
    """
    return sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)
