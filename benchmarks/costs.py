"""What one thing costs an engine and a replica: the constants of `plan`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from benchmarks.planning.about import about
from benchmarks.planning.costs import Cost, Costs, Way
from benchmarks.planning.crew import PROCESSES, Crew
from benchmarks.planning.meter import Meter
from benchmarks.planning.model import filled
from benchmarks.planning.stored import as_table
from benchmarks.stage import Result, Stage
from lockfast.claims.schedule import BEATS
from lockfast.engines.redis.keys import BUCKETS
from lockfast.port.limits import LONGEST_WAIT
from lockfast.service.wire import SILENCE
from tests.servers import Replica

DIRECT = {"redis": 200, "redlock": 60, "zookeeper": 40, "sqlite": 20}  # clients; 100 on the others
SERVICE = 1000
# Waiters of one client, and half of its leases. A session of ZooKeeper with 2,000 waiters broke.
MANY = {"zookeeper": 400}
LOADED = 200  # of them acquire and release as fast as they can
BEATING, WAITING = 6.0, 30.0  # ttls: many renewals, and waiters
SHORTEST = {"zookeeper": 4.0}  # the ttl of a quick run
# 200 backends of PostgreSQL that start together keep two cores busy: see `benchmarks.idle`.
AT_ONCE, DIRECT_AT_ONCE = 25, 2
FLOWS = ("engine_us", "replica_us", "engine_bytes", "replica_bytes", "disk_bytes")
OF_ENGINE = ("engine_us", "engine_bytes", "disk_bytes")
OF_REPLICA = ("replica_us", "replica_bytes")
LATENCY = "duration_seconds_sum claim", "duration_seconds_count claim"
MEMORY = ("engine_memory", "replica_memory")


class Span(NamedTuple):
    """What was used in a while, beyond what an idle system uses, and the calls of it."""

    cost: Cost
    done: float
    """Acquisitions, or renewals."""
    size: float
    """Claims in one call."""

    @property
    def each(self) -> Cost:
        return self.cost.times(1.0 / max(self.done, 1.0))


class Found(NamedTuple):
    """What was measured of one way."""

    one: Span
    """Pairs of one client, and of many."""
    many: Span
    over: Span
    small: Span
    """Renewals of leases in small calls, and in large ones. Direct clients send one in each."""
    large: Span
    waiting: Span
    lease: Cost
    waiter: Cost
    connection: Cost
    idle: Cost
    connections: float
    latency: float
    peak: float


def run(stage: Stage) -> Result:
    costs = measured(stage)
    rows = [
        (f"{name} {field.name}", *(_said(getattr(value, f)) for f in FLOWS + MEMORY))
        for name, way in (("direct", costs.direct), ("service", costs.service))
        for field in fields(Way)
        if isinstance(value := getattr(way, field.name), Cost)
    ]
    head = ("", "engine µs", "replica µs", "engine B", "replica B", "disk B", "engine", "replica")
    return Result(figures=as_table(costs), head=head, rows=rows)


def _said(value: float) -> str:
    return f"{float(f'{value:.3g}'):,g}" if value else ""


def measured(stage: Stage) -> Costs:
    """Measure one engine: directly, and then with a replica in front of it."""
    side = stage.against
    clients, more = stage.count(DIRECT.get(stage.engine, 100), 8), stage.count(SERVICE, 16)
    with side.start() as server:
        members, ports = side.members(server), _ports(server.url)
        meter = Meter(members, ports, None)
        stage.say("an idle engine")
        idle, seconds = meter.read(), stage.pick(2.0, 0.2)
        time.sleep(seconds)
        node = _only(idle, MEMORY) + _per_second(meter.read(), idle, seconds)
        with Crew(server.url, DIRECT_AT_ONCE) as crew:
            # SQLite has no server: what it uses, its clients use.
            meter = Meter(members or crew.all("pid"), ports, None)
            probe = Probe(stage, meter, crew, clients, service=False)
            found, busiest = probe.measure(), probe.busiest
        with Replica(server.url) as it, Crew(it.url, AT_ONCE) as crew:
            meter = Meter(members, ports, (it.pid, it.port))
            probe = Probe(stage, meter, crew, more, service=True)
            direct, service = ways(found, probe.measure())
            replica = probe.base
    if side.cluster is not None:
        with side.cluster() as cluster, Replica(cluster.url) as it, Crew(it.url, AT_ONCE) as crew:
            pids = [node.pid for node in cluster.nodes]
            meter = Meter(pids, [node.port for node in cluster.nodes], (it.pid, it.port))
            probe = Probe(stage, meter, crew, more, service=True)
            service = replace(service, script=probe.script(service, len(pids)))
    return Costs(
        engine=stage.engine,
        direct=direct,
        service=service if members else without_engine(service),
        node=node,
        replica=replica,
        members=max(len(members), 1),
        busiest=busiest,
        about=about(stage.engine),
    )


def ways(direct: Found, service: Found) -> tuple[Way, Way]:
    """Tell the cost of a call from that of the claims in it, for both ways.

    The engine does the same for a renewal, whoever sends it. A direct client sends it alone, and
    a replica many in one call: the largest difference there is.
    """
    alone = [_only(each, OF_ENGINE) for each in solved(direct.small, service.large)]
    by_replica = [_only(each, OF_REPLICA) for each in solved(service.small, service.large)]
    together = [a + b for a, b in zip(alone, by_replica, strict=True)]
    made: list[Way] = []
    for found, (call, renewal) in ((direct, alone), (service, together)):
        pair = (Cost(), found.many.each) if found is direct else solved(found.one, found.many)
        waiting = _less(found.waiting.each, call.times(1.0 / found.waiting.size))
        way = Way(
            pair_call=pair[0],
            pair=pair[1],
            handover=found.over.each,
            renewal_call=call,
            renewal=renewal,
            script=Cost(),
            waiting=_positive(waiting),
            # The engine keeps the same for a claim too. Many of one client show it.
            lease=_only(direct.lease, MEMORY[:1]) + _only(found.lease, MEMORY[1:]),
            waiter=_only(direct.waiter, MEMORY[:1]) + _only(found.waiter, MEMORY[1:]),
            connection=found.connection,
            idle=found.idle,
            connections=found.connections,
            latency=found.latency,
            peak=found.peak,
        )
        made.append(way)
    return made[0], made[1]


def without_engine(way: Way) -> Way:
    """Leave out an engine that has no processes: the replica does its work."""
    values: dict[str, Any] = {field.name: getattr(way, field.name) for field in fields(Way)}
    for name, value in values.items():
        if isinstance(value, Cost):
            values[name] = replace(value, engine_us=0.0, engine_memory=0.0)
    return Way(**values)


def _ports(url: str) -> list[int]:
    """Return the ports of an engine with a URL. A file has none."""
    hosts = url.partition("://")[2].partition("/")[0].rpartition("@")[2].split(",")
    return [port for host in hosts if host and (port := urlsplit(f"//{host}").port)]


class Probe:
    """Measures one way to an engine, step by step."""

    def __init__(
        self, stage: Stage, meter: Meter, crew: Crew, clients: int, *, service: bool
    ) -> None:
        self._stage, self._meter, self._crew, self._service = stage, meter, crew, service
        self._each = clients // PROCESSES
        self._idle = Cost()
        """What is used each second while nothing is done."""
        self.base = Cost()
        """The replica: memory, and CPU for each second, with a client of each process."""
        self.busiest = 1.0

    def measure(self) -> Found:
        """Measure everything."""
        crew, stage = self._crew, self._stage
        connection, idle, connections = self._connect(SILENCE if self._service else 4.0)
        stage.say("one client, and then many, that acquire and release")
        seconds = stage.pick(1.5, 0.3)
        one = self._pairs(lambda: crew.one("pairs", seconds, 1))
        latency = seconds / max(one.done, 1.0) / 2.0
        shares, calls = self._meter.shares(), self._meter.calls()
        seconds, loaded = stage.pick(4.0, 0.3), min(self._each, LOADED // PROCESSES)
        many = self._pairs(lambda: sum(crew.all("pairs", seconds, loaded)))
        if self._service:
            latency = _ratio(calls, self._meter.calls(), *LATENCY)
        spent = [b - a for a, b in zip(shares, self._meter.shares(), strict=True)]
        self.busiest = max(spent, default=0.0) / max(sum(spent), 1.0) or 1.0
        stage.say("locks that change hands")
        names, span = max(min(self._each, 60) // 3, 1), stage.pick(2.5, 0.3)
        over = self._pairs(lambda: sum(crew.all("handovers", span, names)), warm=False)
        small, large, lease = self._renewals()
        waiting, waiter = self._waiters()
        if not self._service:
            lease = self._many()
        crew.all("drop")
        return Found(
            *(one, many, over, small, large, waiting, lease, waiter, connection, idle),
            connections=connections,
            latency=latency,
            peak=many.done / seconds,
        )

    def _connect(self, quiet: float) -> tuple[Cost, Cost, float]:
        """Return the memory of a client, the cost of a second of it, and the connections to the
        engine: of each client, or of the replica. `quiet`: for so many seconds nothing is done. A
        replica pings each silent client once in `SILENCE`.
        """
        crew, stage, meter = self._crew, self._stage, self._meter
        crew.all("connect", 1)
        seconds = stage.pick(2.0, 0.2)
        first = meter.read()
        time.sleep(seconds)
        base = _per_second(meter.read(), first, seconds)
        self.base = replace(Cost(), replica_us=base.replica_us, replica_memory=first.replica_memory)
        stage.say(f"{self._each * PROCESSES:,} clients connect")
        crew.all("connect", self._each)
        more = (self._each - 1) * PROCESSES
        time.sleep(stage.pick(1.0, 0.1))
        then = meter.read()
        seconds = stage.pick(quiet, 0.3)
        time.sleep(seconds)
        self._idle = _per_second(meter.read(), then, seconds)
        grown = _only(_positive(_less(then, first)), MEMORY).times(1.0 / more)
        beyond = _positive(_less(self._idle, base)).times(1.0 / more)
        if self._service:  # the engine does not see how many clients a replica has
            grown, beyond = _only(grown, MEMORY[1:]), _only(beyond, ("replica_us", "replica_bytes"))
            return grown, beyond, meter.connections()
        return grown, beyond, meter.connections() / (self._each * PROCESSES)

    def _pairs(self, work: Callable[[], int], *, warm: bool = True) -> Span:
        if warm:
            self._crew.all("pairs", 0.2, self._each)
        before, calls, began = self._meter.read(), self._meter.calls(), time.monotonic()
        done = work()
        seconds, after = time.monotonic() - began, self._meter.read()
        used = _only(_less(_less(after, before), self._idle.times(seconds)), FLOWS)
        size = _ratio(calls, self._meter.calls(), "claims_sum resign", "claims_count resign")
        return Span(_positive(used), done, size or 1.0)

    def _renewals(self) -> tuple[Span, Span, Cost]:
        """Return renewals in small calls and in large ones, and the memory for each lease."""
        crew, stage = self._crew, self._stage
        ttl = stage.pick(BEATING, SHORTEST.get(stage.engine, 2.0))
        few = max(self._each // 20, 1) if self._service else self._each
        stage.say("a few leases" if self._service else "a lease each, renewed one by one")
        crew.all("hold", 0, few, ttl)
        small = large = self._renewed(ttl)
        before = self._meter.read()
        if self._service:
            stage.say("a lease for each client")
            crew.all("hold", few, self._each, ttl)
        held = _grown(self._meter.read(), before, max(self._each - few, 1) * PROCESSES)
        if self._service:
            large = self._renewed(ttl)
        crew.all("drop")
        return small, large, held

    def _waiters(self) -> tuple[Span, Cost]:
        """Return renewals of waiters, and the memory for each. They stay."""
        crew, stage = self._crew, self._stage
        stage.say("waiters")
        before, ttl = self._meter.read(), stage.pick(WAITING, SHORTEST.get(stage.engine, 2.0))
        if self._service:
            each = self._each - 1
            count = sum(crew.all("wait", each, max(each // 50, 1), ttl, each))
        else:
            many = stage.count(MANY.get(stage.engine, 2000), 40)
            count = crew.one("wait", many, many // 40, ttl, 1)
        waiter = _grown(self._meter.read(), before, count)
        return self._renewed(stage.pick(LONGEST_WAIT, 2.0)), waiter

    def _many(self) -> Cost:
        """Return the memory of each of many leases of one client, beside those that wait: a server
        would put the leases where claims were before.
        """
        # Not a few thousand: the first ones fill buffers and hash tables.
        most = 2 * MANY.get(self._stage.engine, self._stage.against.leases // 4)
        many = self._stage.count(most, 60)
        before = self._meter.read()
        self._stage.say("many leases of one client")
        self._crew.one("hold_many", many, self._stage.pick(WAITING, 4.0))
        return _grown(self._meter.read(), before, many)

    def script(self, way: Way, nodes: int) -> Cost:
        """Return what each script costs that a call takes more on a Cluster."""
        ttl = self._stage.pick(BEATING, 2.0)
        self._connect(4.0)
        self._stage.say("a Cluster: a lease for each client")
        self._crew.all("hold", 0, self._each, ttl)
        found = self._renewed(ttl)
        self._crew.all("drop")
        calls = filled(nodes, found.size) / found.size
        scripts = filled(BUCKETS, found.size) / found.size - calls
        alone = way.renewal + way.renewal_call.times(calls)
        return _positive(_less(found.each, alone)).times(1.0 / max(scripts, 0.1))

    def _renewed(self, ttl: float) -> Span:
        """Measure renewals for some intervals, after the first one: connections open in that, and
        servers get scripts.
        """
        time.sleep(ttl / BEATS)
        before, counts, began = self._meter.read(), self._counts(), time.monotonic()
        time.sleep(ttl)
        seconds, after, now = time.monotonic() - began, self._meter.read(), self._counts()
        used = _positive(_less(_less(after, before), self._idle.times(seconds)))
        calls, claims = (b - a for a, b in zip(counts, now, strict=True))
        return Span(_only(used, FLOWS), claims, claims / max(calls, 1.0))

    def _counts(self) -> Sequence[float]:
        """Return the calls that renewed, and the claims in them."""
        if self._service:
            calls = self._meter.calls()
            return calls.get("claims_count renew", 0.0), calls.get("claims_sum renew", 0.0)
        return [sum(each) for each in zip(*self._crew.all("renewals"), strict=True)]


def solved(one: Span, many: Span) -> tuple[Cost, Cost]:
    """Return the cost of a call and of a claim in it, from two loads with batches of two sizes."""
    apart = 1.0 / one.size - 1.0 / many.size
    if apart < 0.01:
        return Cost(), many.each
    call = _positive(_less(one.each, many.each).times(1.0 / apart))
    # What a call may cost is bounded by what was seen: noise must not make a claim free.
    call = Cost(
        *(min(getattr(call, f.name), getattr(one.each, f.name) * one.size) for f in fields(Cost))
    )
    return call, _positive(_less(many.each, call.times(1.0 / many.size)))


def _ratio(before: dict[str, float], after: dict[str, float], above: str, below: str) -> float:
    count = after.get(below, 0.0) - before.get(below, 0.0)
    return (after.get(above, 0.0) - before.get(above, 0.0)) / count if count else 0.0


def _less(left: Cost, right: Cost) -> Cost:
    return left + right.times(-1.0)


def _positive(cost: Cost) -> Cost:
    """Nothing costs less than nothing: it is lost in the noise."""
    return Cost(*(max(getattr(cost, field.name), 0.0) for field in fields(Cost)))


def _only(cost: Cost, names: Sequence[str]) -> Cost:
    kept: dict[str, Any] = {name: getattr(cost, name) for name in names}
    return Cost(**kept)


def _grown(after: Cost, before: Cost, count: int) -> Cost:
    return _only(_positive(_less(after, before)).times(1.0 / count), MEMORY)


def _per_second(after: Cost, before: Cost, seconds: float) -> Cost:
    return _only(_positive(_less(after, before)).times(1.0 / seconds), FLOWS)
