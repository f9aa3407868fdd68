"""A point: a fleet that ran, and what it took."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchmarks.planning.costs import Cost
from benchmarks.planning.meter import Meter
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
    client_network: float  # bytes/s between replicas and clients


@dataclass(frozen=True, slots=True)
class Point:
    """What was measured."""

    fleet: Fleet
    used: Used
    lost: int
    """Leases that ended, and waiters that were not granted in their turn."""
    more: dict[str, Figure] = field(default_factory=dict)
    """Figures that no model predicts."""


class Servers:
    """The servers of a fleet, which can be measured."""

    def __init__(self, engine: Sequence[Redis], replicas: Sequence[Replica] = ()) -> None:
        """Measure these."""
        nodes = [node.pid for node in engine]
        # A meter reads of one replica.
        self._meters = [Meter(nodes, [node.port for node in engine], None)]
        self._meters += [Meter([], [], (replica.pid, replica.port)) for replica in replicas]

    def used(self, seconds: float) -> Used:
        """Return what they take while so much time passes."""
        before, began = self._read(), time.monotonic()
        time.sleep(seconds)
        after, seconds = self._read(), time.monotonic() - began
        each = (after + before.times(-1.0)).times(1.0 / seconds)
        return Used(
            replica_cpu=each.replica_us / 1e6,
            replica_memory=after.replica_memory,
            engine_cpu=each.engine_us / 1e6,
            engine_memory=after.engine_memory,
            network=each.engine_bytes,
            client_network=each.replica_bytes,
        )

    def engine_us(self) -> float:
        """Return the microseconds of CPU that the engine has used."""
        return sum(self._meters[0].shares())

    def _read(self) -> Cost:
        return sum((meter.read() for meter in self._meters), Cost())
