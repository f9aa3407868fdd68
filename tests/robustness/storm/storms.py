"""The storms: what happens to a fleet, and what must hold afterwards."""

from __future__ import annotations

import http.client
import re
import resource
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from lockfast.service.overload import RATE
from tests.robustness.storm.fleet import PROCESSES, WAITERS, Asked, Fleet, fleet
from tests.servers import Redis, Replica, SentinelSet

Figures = dict[str, Any]
Say = Callable[[str], object]
BEATS = 3.0  # renewals of a lease in a ttl
TIMEOUT = 30.0  # seconds for an acquisition
SLACK = 3.0  # seconds: a process here stands for thousands
MOST = 3.0  # times the even rate
LOOK = 0.5  # seconds between two looks at the clients
KIB = 64  # of memory for each client that a replica takes over, at most


def replica(clients: int, ttl: float, say: Say) -> Figures:
    """Kill the replica that has all clients, while another one runs beside it."""
    with Redis() as redis, Replica(redis.url) as first, Replica(redis.url) as second:
        second.stop()  # its port is free, so that all connect to the first
        _many_files(first)
        url = f"lockfast://{first.address},{second.address}"
        with fleet(url, clients, ttl) as members:
            held = sum(members.do("hold"))
            say(f"{held:,} leases are held, {clients - held:,} clients wait")
            second.start()
            _many_files(second)
            before = _memory(second)
            members.do("mark")
            with _watched(second) as slowest:
                began = time.monotonic()
                first.kill()
                back = _wait_back(members, clients, began + 2.0 * ttl)
                time.sleep(ttl / BEATS + LOOK)  # so that each has renewed its lease since
            say(f"storm over, back after {back - began:.1f} s")
            tally = members.tally()
            say("the order of the queues")
            order = members.order()
            grown = _memory(second) - before
            arrivals = _seconds([when - began for when, port in tally.dials if port == second.port])
    even = max(RATE, clients / (ttl / BEATS))
    figures: Figures = {
        "clients": clients,
        "ttl": ttl,
        "lost": tally.lost,
        "connected": tally.connected,
        "back_after": round(max(tally.greeted, default=began) - began, 1),
        "even_rate": round(even, 1),
        "even_rate_is": "clients / the seconds that their replica tells them, 1 for 1,000 of them, "
        "or clients / (ttl / 3) if that is sooner, since all have to renew by then",
        "peak_rate": max(arrivals),
        "peak_over_even": round(max(arrivals) / even, 2),
        "arrivals_per_second": arrivals,
        "greeted_per_second": _seconds([each - began for each in tally.greeted]),
        "slowest_livez": slowest[0],
        "kib_per_client": round(grown / clients, 1),
        "waiters": clients // PROCESSES // WAITERS * PROCESSES,
        "waiters_granted_early": tally.granted,
        "waiters_failed": tally.failed[:3],
        "waiters_granted": order.granted,
        "places_lost": order.moved,
        "unfair": order.unfair,
    }
    figures["violations"] = _wrong(
        (tally.lost, f"{tally.lost} leases were lost"),
        (tally.connected != clients, f"{clients - tally.connected} clients are not back"),
        (figures["back_after"] > ttl, f"the last one was back after {figures['back_after']} s"),
        (max(arrivals) > MOST * even, f"{max(arrivals)} arrivals in a second"),
        (figures["kib_per_client"] > KIB, f"{figures['kib_per_client']} KiB for each client"),
        (tally.failed, f"{len(tally.failed)} waiters failed: {tally.failed[:1]}"),
        (tally.granted, f"{tally.granted} waiters were granted a lock that was held"),
        (order.moved, f"{order.moved} waiters have lost their place"),
        (order.unfair, f"{order.unfair} waiters were overtaken"),
        (order.granted != figures["waiters"], f"{order.granted} waiters were granted their lock"),
    )
    return figures


def start(clients: int, ttl: float, say: Say) -> Figures:
    """Start all clients in the same second, as cron does: each acquires a lock of its own."""
    with (
        Redis() as redis,
        Replica(redis.url) as first,
        Replica(redis.url) as second,
        fleet(f"lockfast://{first.address},{second.address}", clients, ttl) as members,
    ):
        for each in (first, second):
            _many_files(each)
        say("all clients start")
        with _watched(first) as slowest:
            asked = members.asked("", TIMEOUT)
        return {
            "clients": clients,
            "slowest_livez": slowest[0],
            "shed": sum(map(_shed, (first, second))),
            **_told(asked, clients),
        }


def name(clients: int, ttl: float, say: Say) -> Figures:
    """Have all clients acquire one lock. Each releases it at once."""
    with Redis() as redis, _one(redis.url, clients, ttl) as (_, members):
        say("all clients want one lock")
        asked = members.asked("everybody's", TIMEOUT)
        tokens = [token for _, token in asked.tokens]
        unfair = sum(one > other for one, other in pairwise(tokens))
        figures = {"clients": clients, "unfair": unfair, **_told(asked, clients)}
        figures["violations"] += _wrong((unfair, f"{unfair} clients were overtaken"))
        return figures


def engine(clients: int, ttl: float, say: Say) -> Figures:
    """Restart the engine, with what it has on disk, and then without."""
    with (
        Redis(appendonly=True, config={"appendfsync": "always"}) as redis,
        _one(redis.url, clients, ttl) as (_, members),
    ):
        held = sum(members.do("hold"))
        say(f"{held:,} leases are held")
        redis.restart(keep_data=True)
        time.sleep(ttl)
        kept = members.tally()
        say("the engine forgets all")
        began = time.monotonic()
        redis.restart(keep_data=False)
        while (lost := members.tally()).lost < held and time.monotonic() < began + 2.0 * ttl:
            time.sleep(LOOK)
        told_after = round(time.monotonic() - began, 1)
        asked = members.asked("afterwards", ttl)
    return {
        "clients": clients,
        "lost_with_data": kept.lost,
        "lost_without_data": lost.lost,
        "told_after": told_after,
        "granted_afterwards": len(asked.granted),
        "violations": _wrong(
            (kept.lost, f"{kept.lost} leases were lost that the engine kept"),
            (kept.granted, f"{kept.granted} waiters were granted a lock that was held"),
            (kept.failed, f"{len(kept.failed)} waiters failed: {kept.failed[:1]}"),
            (lost.lost != held, f"{held - lost.lost} holders do not know that nothing is left"),
            (told_after > ttl + SLACK, f"the last holder was told after {told_after} s"),
            (not asked.granted, "nobody gets a lock afterwards"),
        ),
    }


def failover(clients: int, ttl: float, say: Say) -> Figures:
    """Kill the primary of a Sentinel set."""
    with SentinelSet() as redis, _one(redis.url, clients, ttl) as (_, members):
        held = sum(members.do("hold"))
        say(f"{held:,} leases are held")
        time.sleep(ttl / BEATS)  # so that the replica of the engine has all of them
        redis.primary().kill()
        time.sleep(ttl)
        tally = members.tally()
        order = members.order()
    waiters = clients // PROCESSES // WAITERS * PROCESSES
    return {
        "clients": clients,
        "lost": tally.lost,
        "waiters": waiters,
        "waiters_granted": order.granted,
        "violations": _wrong(
            (tally.lost, f"{tally.lost} leases were lost"),
            (tally.granted, f"{tally.granted} waiters were granted a lock that was held"),
            (tally.connected != clients, f"{clients - tally.connected} clients are not connected"),
            (order.unfair, f"{order.unfair} waiters were overtaken"),
            (order.granted != waiters, f"{order.granted} waiters were granted their lock"),
        ),
    }


def network(clients: int, ttl: float, say: Say) -> Figures:
    """Cut all clients off for two ttls: the only replica stands still, and comes back."""
    with Redis() as redis, _one(redis.url, clients, ttl) as (only, members):
        held = sum(members.do("hold"))
        say(f"{held:,} leases are held")
        only.pause()
        cut = time.monotonic()
        time.sleep(ttl + SLACK)
        lost = members.tally().lost
        time.sleep(max(cut + 2.0 * ttl - time.monotonic(), 0.0))
        members.do("mark")
        only.resume()
        began = time.monotonic()
        asked = members.asked("", TIMEOUT)
        tally = members.tally()
        greeted = _seconds([each - began for each in tally.greeted])
        memory = _memory(only)
        shed = _shed(only)
    figures = {
        "clients": clients,
        "lost": lost,
        "greeted_per_second": greeted,
        "kib_per_client": round(memory / clients, 1),
        "shed": shed,
        **_told(asked, clients),
    }
    figures["violations"] += _wrong(
        (lost != held, f"{held - lost} holders were not told in time that they are cut off")
    )
    return figures


KINDS: dict[str, Callable[[int, float, Say], Figures]] = {
    each.__name__: each for each in (replica, start, engine, failover, network, name)
}


@contextmanager
def _one(url: str, clients: int, ttl: float) -> Iterator[tuple[Replica, Fleet]]:
    """Start one replica in front of an engine, and its clients."""
    with Replica(url) as only, fleet(f"lockfast://{only.address}", clients, ttl) as members:
        _many_files(only)
        yield only, members


def _told(asked: Asked, clients: int) -> Figures:
    """Return how acquisitions ended. Each must be granted, or told that it is not, in time."""
    ended = [*asked.granted, *asked.told, *asked.errors]
    late = sum(each > TIMEOUT + SLACK for each in ended)
    return {
        "timeout": TIMEOUT,
        "granted": len(asked.granted),
        "told": len(asked.told),
        "errors": dict(Counter(asked.failed)),
        "slowest": round(max(ended, default=0.0), 1),
        "violations": _wrong(
            (len(ended) != clients, f"{clients - len(ended)} acquisitions have not ended"),
            (late, f"{late} acquisitions ended after their timeout"),
            (not asked.granted, "nobody was granted a lock"),
        ),
    }


def _shed(server: Replica) -> int:
    """Return how many connections and requests a replica has refused."""
    line = http.client.HTTPConnection(server.host, server.port, timeout=20.0)
    with closing(line):
        line.request("GET", "/metrics")
        text = line.getresponse().read().decode()
    return sum(map(int, re.findall(r"^lock_service_shed_total\S* (\d+)$", text, re.MULTILINE)))


def _wrong(*rules: tuple[object, str]) -> list[str]:
    return [text for broken, text in rules if broken]


def _seconds(instants: Sequence[float]) -> list[int]:
    """Count instants by the second. The first second is that of the storm's begin."""
    counts = Counter(int(each) for each in instants if each >= 0.0)
    return [counts[second] for second in range(max(counts, default=0) + 1)]


def _wait_back(members: Fleet, clients: int, until: float) -> float:
    """Wait until all clients are connected, and return when that was."""
    while time.monotonic() < until:
        time.sleep(LOOK)
        if sum(members.do("connected")) == clients:
            break
    return time.monotonic()


@contextmanager
def _watched(server: Replica) -> Iterator[list[float]]:
    """Ask a replica again and again whether it lives. The list has the slowest answer, in s."""
    over, slowest = threading.Event(), [0.0]

    def watch() -> None:
        while not over.wait(LOOK):
            began = time.monotonic()
            with suppress(OSError, http.client.HTTPException):
                line = http.client.HTTPConnection(server.host, server.port, timeout=20.0)
                with closing(line):
                    line.request("GET", "/livez")
                    line.getresponse().read()
            slowest[0] = round(max(slowest[0], time.monotonic() - began), 3)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield slowest
    finally:
        over.set()
        thread.join()


def _memory(server: Replica) -> int:
    """Return the most memory that a process has had, in KiB."""
    lines = Path(f"/proc/{server.pid}/status").read_text("ascii", errors="replace").splitlines()
    (line,) = [each for each in lines if each.startswith("VmHWM:")]
    return int(line.split()[1])


def _many_files(server: Replica) -> None:
    """Let a replica have as many connections as this machine allows."""
    _, most = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (most, most))
