"""Clients with a connection to one replica and a lease each."""

from __future__ import annotations

from benchmarks.idle import AT_ONCE, PROCESSES, Holding, held, many_files
from benchmarks.planning.model import Fleet, interval
from benchmarks.scaling.point import Point, Servers
from benchmarks.stage import Stage
from tests.servers import Redis, Replica

WINDOWS = 3


def connections(stage: Stage, clients: int) -> Point:
    """Measure while each client renews its lease so many times."""
    ttl = stage.pick(30.0, 12.0)
    count = stage.count(clients, clients // 50) // PROCESSES * PROCESSES
    seconds = stage.count(WINDOWS, 1) * interval(ttl)
    with Redis() as server, Replica(server.url) as replica:
        many_files(replica.pid, 2 * count)
        with held(Holding(replica.url, count, ttl, seconds, AT_ONCE)) as lost:
            stage.say(f"{count:,} clients have a lease each")
            used = Servers([server], [replica]).used(seconds)
            fleet = Fleet("redis", count, count, ttl, replicas=1, nodes=1)
            return Point(fleet, used, lost())
