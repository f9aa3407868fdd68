"""The model: what a fleet takes in steady state, from constants. It reads nothing and asks nobody.

A claim is renewed every third of its ttl. A replica collects renewals for a tenth of a second from
the first one, and sends them in one call; it collects acquisitions while a call is under way. So
the engine's calls grow with the renewals only until each replica sends one in each window, and
then with their size.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from benchmarks.planning.costs import Cost, Costs, Way
from benchmarks.planning.limits import HEADROOM, Machine, Rule, rule_of
from lockfast.claims.renewing import CHUNK
from lockfast.claims.schedule import BEATS
from lockfast.core.timetable import Pulse
from lockfast.port.limits import LONGEST_WAIT
from lockfast.service import collector, heart
from lockfast.service.wire import SILENCE

MILLION = 1e6
TICK = 0.001
"""Seconds by which a heart wakes too late: an event loop sleeps for whole milliseconds. A client of
many leases renews together what is due meanwhile."""
REQUESTS = {"pair_call": 2, "handover": 2, "renewal_call": 1}
"""Requests of the engine in each: a claim and a release, or a renewal."""
SPARE = 1  # replicas more than the load needs: one may die, and the others take its clients


@dataclass(frozen=True)
class Fleet:
    """What is asked."""

    engine: str
    clients: int
    locks: int
    """Leases that are held at the same time."""
    ttl: float
    rate: float = 0.0
    """Acquisitions per second, each with its release. With waiters each is a hand-over."""
    waiters: int = 0
    service: bool = True
    replicas: int | None = None
    """None: as many as it needs."""
    nodes: int | None = None


@dataclass(frozen=True)
class Reason:
    """One kind of work: how often, what one costs, and the constants it comes from."""

    what: str
    count: float
    """Per second, or standing."""
    cost: Cost
    """Of all of them together: CPU and bytes for each second, or memory."""
    constant: str
    """Its name in the file, in the table of the way."""


@dataclass(frozen=True)
class Limit:
    """What one replica or one node can do, and how many of them the fleet takes for that."""

    name: str
    units: float
    """How many would be used up entirely."""
    why: str


@dataclass(frozen=True)
class Needs:
    """What it takes, for all replicas and all engine nodes together, in steady state."""

    replica_cpu: float  # cores
    replica_memory: float  # bytes
    engine_cpu: float  # cores
    engine_memory: float  # bytes
    engine_connections: int
    network: float  # bytes/s at the engine
    disk: float  # bytes/s
    replicas: int
    nodes: int
    limit: str
    """The limit that is met first when the fleet grows, with one replica and one node."""
    reasons: tuple[Reason, ...]
    limits: tuple[Limit, ...]
    """All of them, the first one first."""
    client_network: float = 0.0  # bytes/s between the replicas and their clients
    calls: float = 0.0  # requests/s at the engine


def needs(fleet: Fleet, costs: Costs, machine: Machine | None = None) -> Needs:
    """Add up what a fleet takes.

    More replicas make smaller batches, and more nodes split them: both cost the engine more. So it
    is repeated with what was found, until that is enough.
    """
    if fleet.engine != costs.engine:
        raise ValueError(f"the costs are those of {costs.engine}, not of {fleet.engine}")
    machine, rule = machine or Machine(), rule_of(fleet.engine)
    replicas = fleet.replicas or (1 + SPARE)
    nodes = fleet.nodes or 1
    while True:
        found = _needs(fleet, costs, machine, rule, replicas if fleet.service else 0, nodes)
        more = (
            (fleet.replicas or _enough(found.limits, "replica") + SPARE) if fleet.service else 0,
            fleet.nodes or _enough(found.limits, "engine"),
        )
        if more[0] <= replicas and more[1] <= nodes:
            return found
        replicas, nodes = max(replicas, more[0]), max(nodes, more[1])


def _enough(limits: tuple[Limit, ...], kind: str) -> int:
    return max(1, *(math.ceil(each.units) for each in limits if each.name.startswith(kind)))


def _needs(  # noqa: PLR0913, PLR0917  # the question, and what is tried
    fleet: Fleet, costs: Costs, machine: Machine, rule: Rule, replicas: int, nodes: int
) -> Needs:
    way = costs.service if fleet.service else costs.direct
    share = replicas or max(fleet.clients, 1)
    reasons = [
        Reason(each.what, each.count, each.cost, each.constant)
        for each in chain(_work(fleet, way, share, rule, nodes), _standing(fleet, way))
    ]
    reasons.append(Reason("idle engine nodes", nodes, costs.node.times(nodes), "node"))
    if replicas:
        idle = costs.replica.times(replicas)
        reasons.append(Reason("idle replicas", replicas, idle, "replica"))
    total = sum((each.cost for each in reasons), Cost())
    each_node = way.connections * replicas if replicas else way.connections * fleet.clients / nodes
    calls = sum(each.count * REQUESTS.get(each.constant, 0) for each in reasons)
    found = Needs(
        replica_cpu=total.replica_us / MILLION,
        replica_memory=total.replica_memory,
        engine_cpu=total.engine_us / MILLION,
        engine_memory=total.engine_memory,
        engine_connections=math.ceil(each_node * nodes),
        network=total.engine_bytes,
        disk=total.disk_bytes,
        replicas=replicas,
        nodes=nodes,
        limit="",
        reasons=tuple(reasons),
        limits=(),
        client_network=total.replica_bytes,
        calls=calls,
    )
    limits = sorted(_limits(fleet, found, costs, machine, rule), key=lambda each: -each.units)
    return Needs(**{**vars(found), "limits": tuple(limits), "limit": limits[0].name})


def interval(life: float) -> float:
    """Return the seconds between two renewals of a claim that lives so long without one."""
    return Pulse[object]().lane(life / BEATS).interval


def _work(fleet: Fleet, way: Way, share: int, rule: Rule, nodes: int) -> Iterator[Reason]:
    """Yield what happens every second. `share`: replicas, or direct clients: each batches."""
    deeds = fleet.rate
    if fleet.waiters:
        yield Reason("hand-overs", deeds, way.handover.times(deeds), "handover")
    elif deeds:
        size = min(max(1.0, deeds / share * way.latency), collector.SIZE) if fleet.service else 1.0
        yield Reason("acquisitions", deeds, way.pair.times(deeds), "pair")
        yield from _calls(
            deeds, size, rule, nodes, ("pair_call", way.pair_call), way.script.times(2.0)
        )
    leases = fleet.locks / interval(fleet.ttl)
    wait = min(fleet.ttl, LONGEST_WAIT)
    waiters = fleet.waiters / interval(wait)
    if leases:
        yield Reason("renewals of leases", leases, way.renewal.times(leases), "renewal")
    if waiters:
        yield Reason("renewals of waiters", waiters, way.waiting.times(waiters), "waiting")
    if leases + waiters:
        size = batch((leases + waiters) / share, fleet.ttl, service=fleet.service)
        named = "renewal_call", way.renewal_call
        yield from _calls(leases + waiters, size, rule, nodes, named, way.script)


def batch(rate: float, ttl: float, *, service: bool) -> float:
    """Return how many renewals go in one call of a replica, or client, with so many a second."""
    if not service:
        return min(1.0 + rate * TICK, CHUNK)
    patience = min(5.0, min(ttl, LONGEST_WAIT) / 6.0)
    window = min(heart.WINDOW, patience / 4.0) if ttl >= 2.0 else 0.0  # a shorter one is urgent
    return min(1.0 + rate * window, heart.SIZE)


def _calls(  # noqa: PLR0913, PLR0917  # what is sent, where, and what it costs
    rate: float, size: float, rule: Rule, nodes: int, named: tuple[str, Cost], script: Cost
) -> Iterator[Reason]:
    """Yield the calls per second, with so many claims in each. One goes to each node that has some
    of them, with a script for each of their buckets.
    """
    constant, call = named
    touched, scripts = 1.0, max(1.0, size / rule.part)
    if rule.buckets and nodes > 1:
        touched, scripts = filled(nodes, size), filled(rule.buckets, size)
    calls, more = rate / size * touched, rate / size * (scripts - touched)
    yield Reason("  their calls", calls, call.times(calls), constant)
    if more > calls / 100.0:
        yield Reason("  more scripts", more, script.times(more), "script")


def filled(boxes: int, things: float) -> float:
    """Return how many boxes are not empty, when things are thrown into them."""
    return boxes * (1.0 - math.pow(1.0 - 1.0 / boxes, things))


def _standing(fleet: Fleet, way: Way) -> Iterator[Reason]:
    """Yield what stands there."""
    for what, count, cost, constant in (
        ("connections", fleet.clients, way.connection, "connection"),
        ("idle clients", _silent(fleet), way.idle, "idle"),
        ("leases", fleet.locks, way.lease, "lease"),
        ("waiters", fleet.waiters, way.waiter, "waiter"),
    ):
        if count:
            yield Reason(what, count, cost.times(count), constant)


def _silent(fleet: Fleet) -> int:
    """Return how many clients neither hold nor wait. Renewals of the others say that they live."""
    if interval(fleet.ttl) >= SILENCE:
        return fleet.clients
    return max(fleet.clients - fleet.locks - fleet.waiters, 0)


def _limits(
    fleet: Fleet, found: Needs, costs: Costs, machine: Machine, rule: Rule
) -> Iterator[Limit]:
    """Yield how many replicas, and how many engine nodes, each limit takes."""
    usable = HEADROOM * (rule.cores or machine.cores)
    yield Limit(
        "engine CPU",
        found.engine_cpu * costs.busiest / usable,
        f"{usable:.2g} cores of the busiest server, which has {costs.busiest:.0%}",
    )
    yield Limit(
        "engine memory",
        found.engine_memory / costs.members / (HEADROOM * machine.memory),
        f"{HEADROOM:.0%} of a server's {machine.memory / 2**30:.3g} GiB",
    )
    yield Limit(
        "engine network",
        (found.network / HEADROOM / machine.network) * costs.busiest,
        f"{HEADROOM:.0%} of a server's {machine.network * 8 / 1e9:.3g} Gbit/s",
    )
    most = rule.connections or machine.files
    # Each replica connects to every node: more nodes do not take connections from one another.
    connections = found.engine_connections / (found.nodes if fleet.service else 1)
    connections /= costs.members
    yield Limit("engine connections", connections / most, rule.setting.format(most))
    if not fleet.service:
        return
    files = HEADROOM * machine.files
    yield Limit("replica files", fleet.clients / files, f"{HEADROOM:.0%} of {machine.files:,}")
    yield Limit("replica CPU", found.replica_cpu / HEADROOM, f"{HEADROOM:.0%} of a core")
    yield Limit(
        "replica memory",
        found.replica_memory / (HEADROOM * machine.memory / machine.cores),
        f"{HEADROOM:.0%} of a server's {machine.memory / 2**30:.3g} GiB, by {machine.cores} cores",
    )
    yield Limit(
        "replica calls",
        fleet.rate * costs.service.latency / collector.SIZE / HEADROOM,
        f"{collector.SIZE} claims in a call of {costs.service.latency * 1000:.2g} ms",
    )
