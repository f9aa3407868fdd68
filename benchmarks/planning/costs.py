"""The constants of the model: what one thing costs on one engine. It reads and measures nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, fields


@dataclass(frozen=True, slots=True)
class Cost:
    """What one thing costs. Zero: not measured, because it costs nothing there."""

    engine_us: float = 0.0
    """Microseconds of CPU of all the engine's processes."""
    replica_us: float = 0.0
    """Microseconds of CPU of the replica."""
    engine_bytes: float = 0.0
    """Bytes between the engine and its clients (a replica is one), both directions. The headers of
    packets are not counted: 66 bytes each."""
    replica_bytes: float = 0.0
    """Bytes between the replica and its clients, both directions."""
    disk_bytes: float = 0.0
    """Bytes that the engine's processes write to disks."""
    engine_memory: float = 0.0
    """Bytes of memory of all the engine's processes."""
    replica_memory: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(getattr(self, f.name) + getattr(other, f.name) for f in fields(Cost)))

    def times(self, count: float) -> Cost:
        """Return the cost of so many."""
        return Cost(*(getattr(self, f.name) * count for f in fields(Cost)))


@dataclass(frozen=True, slots=True)
class Way:
    """One way to the engine: direct, or through the service.

    Several claims go to the engine in one call, which costs `…_call` once and the rest for each.
    """

    pair_call: Cost
    """A call that makes claims and the one that removes them."""
    pair: Cost
    """An acquisition of a free lock and its release, without the calls."""
    handover: Cost
    """A release, and the grant to the next waiter, who queued before. All calls."""
    renewal_call: Cost
    renewal: Cost
    """A renewal of a lease, without its call."""
    script: Cost
    """One more script of a call that is sent with others. A Cluster needs many of them."""
    waiting: Cost
    """A renewal of a waiter, without its call."""
    lease: Cost
    """A lease that is held: memory."""
    waiter: Cost
    """A claim that waits: memory."""
    connection: Cost
    """A client that is connected: memory, of the engine if it is direct, or else of the replica."""
    idle: Cost
    """A second of a client that neither holds nor waits: a replica pings who is silent for long."""
    connections: float
    """Connections to the engine: of each client that holds a lease, or of each replica."""
    latency: float
    """Seconds that a call with claims takes."""
    peak: float
    """Pairs a second that were reached when this was measured, with the clients on the machine."""


@dataclass(frozen=True, slots=True)
class Costs:
    """All constants of one engine."""

    engine: str
    direct: Way
    service: Way
    node: Cost
    """An idle engine, with all its members: CPU for each second, and memory."""
    replica: Cost
    """An idle replica: CPU for each second, and memory."""
    members: int
    """Servers that make up one engine: three of etcd."""
    busiest: float
    """The share of the engine's CPU that its busiest member has."""
    about: dict[str, str] = field(default_factory=dict)
    """When, where and with which versions they were measured."""
