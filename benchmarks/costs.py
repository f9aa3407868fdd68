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
from lockfast.engines.redis.keys import BUCKETS
from lockfast.service.wire import SILENCE
from tests.servers import Replica

DIRECT = {"redis": 200, "redlock": 60, "zookeeper": 40, "sqlite": 20}  # clients; 100 on the others
SERVICE = 1000
LOADED = 200  # of them acquire and release as fast as they can
BEATING, LONG, WAITING = 6.0, 15.0, 30.0  # ttls: many renewals, many leases, and waiters
SHORTEST = {"zookeeper": 4.0}  # the ttl of a quick run
# 200 backends of PostgreSQL that start together keep two cores busy: see `benchmarks.idle`.
AT_ONCE, DIRECT_AT_ONCE = 25, 2
FLOWS = ("engine_us", "replica_us", "engine_bytes", "replica_bytes", "disk_bytes")
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
    clients = stage.count(DIRECT.get(stage.engine, 100), 8)
    with side.start() as server:
        members, ports = side.members(server), _ports(server.url)
        meter = Meter(members, ports, None)
        stage.say("an idle engine")
        idle = meter.read()
        time.sleep(stage.pick(2.0, 0.2))
        node = _only(idle, MEMORY) + _per_second(meter.read(), idle, stage.pick(2.0, 0.2))
        with Crew(server.url, DIRECT_AT_ONCE) as crew:
            # SQLite has no server: what it uses, its clients use.
            own = members or crew.all("pid")
            probe = Probe(stage, Meter(own, ports, None), crew, clients, service=False)
            direct = probe.measure()
            memory, busiest = probe.memory(), probe.busiest
        with Replica(server.url) as it, Crew(it.url, AT_ONCE) as crew:
            meter = Meter(members, ports, (it.pid, it.port))
            probe_of_service = Probe(stage, meter, crew, stage.count(SERVICE, 16), service=True)
            service = probe_of_service.measure()
    if side.cluster is not None:
        with side.cluster() as cluster, Replica(cluster.url) as it, Crew(it.url, AT_ONCE) as crew:
            pids = [node.pid for node in cluster.nodes]
            meter = Meter(pids, [node.port for node in cluster.nodes], (it.pid, it.port))
            probe = Probe(stage, meter, crew, stage.count(SERVICE, 16), service=True)
            service = replace(service, script=probe.script(service, len(pids)))
    lease, waiter = memory
    return Costs(
        engine=stage.engine,
        direct=replace(direct, lease=lease, waiter=waiter),
        # The engine keeps the same for a claim, whoever made it.
        service=replace(service, lease=lease + service.lease, waiter=waiter + service.waiter),
        node=node,
        replica=probe_of_service.base,
        members=max(len(members), 1),
        busiest=busiest,
        about=about(stage.engine),
    )


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

    def measure(self) -> Way:
        """Measure everything, but the engine's memory for each lease and each waiter."""
        crew, stage = self._crew, self._stage
        connection, idle, connections = self._connect()
        stage.say("one client, and then many, that acquire and release")
        one = self._pairs(lambda: crew.one("pairs", stage.pick(2.0, 0.3), 1))
        shares = self._meter.shares()
        seconds = stage.pick(4.0, 0.3)
        before, loaded = self._meter.calls(), min(self._each, LOADED // PROCESSES)
        many = self._pairs(lambda: sum(crew.all("pairs", seconds, loaded)))
        after = self._meter.calls()
        spent = [b - a for a, b in zip(shares, self._meter.shares(), strict=True)]
        self.busiest = max(spent, default=0.0) / max(sum(spent), 1.0) or 1.0
        call, pair = solved(one, many) if self._service else (Cost(), many.each)
        latency = (
            _ratio(before, after, "duration_seconds_sum claim", "duration_seconds_count claim")
            if self._service
            else stage.pick(2.0, 0.3) / max(one.done, 1.0) / 2.0
        )
        stage.say("locks that change hands")
        names = max(min(self._each, 60) // 3, 1)
        over = self._pairs(
            lambda: sum(crew.all("handovers", stage.pick(3.0, 0.3), names)), warm=False
        )
        renewal_call, renewal, held = self._renewals()
        waiting, waiter = self._waiters(renewal_call)
        return Way(
            pair_call=call,
            pair=pair,
            handover=over.each,
            renewal_call=renewal_call,
            renewal=renewal,
            script=Cost(),
            waiting=waiting,
            lease=_only(held, ("replica_memory",)),
            waiter=_only(waiter, ("replica_memory",)),
            connection=connection,
            idle=idle,
            connections=connections,
            latency=latency,
            peak=many.done / seconds,
        )

    def _connect(self) -> tuple[Cost, Cost, float]:
        """Return the memory of a client, the cost of a second of it, and the connections to the
        engine: of each client, or of the replica.
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
        # A replica pings each silent client once in this time.
        seconds = stage.pick(SILENCE if self._service else 5.0, 0.3)
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

    def _renewals(self) -> tuple[Cost, Cost, Cost]:
        """Return the cost of a call, of a renewal in it, and the memory for each lease."""
        crew, stage = self._crew, self._stage
        ttl = stage.pick(BEATING, SHORTEST.get(stage.engine, 2.0))
        few = max(self._each // 20, 1) if self._service else self._each
        stage.say("a few leases, renewed one by one" if self._service else "a lease each")
        crew.all("hold", 0, few, ttl)
        one = self._renewed(ttl)
        if not self._service:
            crew.all("drop")
            stage.say("one client of many leases")
            before = self._meter.read()
            self._many = stage.count(4000, 60)
            crew.one("hold_many", self._many, stage.pick(LONG, SHORTEST.get(stage.engine, 2.0)))
            self._lease = _grown(self._meter.read(), before, self._many)
            many = self._renewed(stage.pick(LONG / 2.0, 2.0))
            crew.all("drop")
            return *solved(one, many), Cost()
        stage.say("a lease for each client")
        before = self._meter.read()
        crew.all("hold", few, self._each, ttl)
        held = _grown(self._meter.read(), before, (self._each - few) * PROCESSES)
        many = self._renewed(ttl)
        crew.all("drop")
        return *solved(one, many), held

    def _waiters(self, call: Cost) -> tuple[Cost, Cost]:
        """Return the cost of a waiter's renewal without its call, and the memory for each."""
        crew, stage = self._crew, self._stage
        stage.say("waiters")
        before = self._meter.read()
        if self._service:
            each = self._each - 1
            crew.all(
                "wait",
                each,
                max(each // 50, 1),
                stage.pick(WAITING, SHORTEST.get(stage.engine, 2.0)),
                each,
            )
            count = each * PROCESSES
        else:
            count = stage.count(2000, 40)
            crew.one(
                "wait",
                count,
                max(count // 50, 1),
                stage.pick(WAITING, SHORTEST.get(stage.engine, 2.0)),
                1,
            )
        waiter = _grown(self._meter.read(), before, count)
        if not self._service:
            self._waiter = waiter
        renewed = self._renewed(stage.pick(10.0, 2.0))
        crew.all("drop")
        return _positive(_less(renewed.each, call.times(1.0 / renewed.size))), waiter

    def script(self, way: Way, nodes: int) -> Cost:
        """Return what each script costs that a call takes more on a Cluster."""
        ttl = self._stage.pick(BEATING, 2.0)
        self._connect()
        self._stage.say("a Cluster: a lease for each client")
        self._crew.all("hold", 0, self._each, ttl)
        found = self._renewed(ttl)
        self._crew.all("drop")
        calls = filled(nodes, found.size) / found.size
        scripts = filled(BUCKETS, found.size) / found.size - calls
        alone = way.renewal + way.renewal_call.times(calls)
        return _positive(_less(found.each, alone)).times(1.0 / max(scripts, 0.1))

    def memory(self) -> tuple[Cost, Cost]:
        """Return what the engine keeps for a lease, and for a waiter."""
        return self._lease, self._waiter

    def _renewed(self, ttl: float) -> Span:
        """Measure renewals for as long as each is renewed three times."""
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
