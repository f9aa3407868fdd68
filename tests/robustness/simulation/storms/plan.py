"""What a seed decides: how large the fleet is, when it starts, and which storms hit it when."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

TTL = 30.0
START = 10.0  # seconds over which the clients of a fleet start, unless they start at once
RACKS = 2  # networks that clients are in. A cut may be of one or of all of them
LARGE = 5_000  # clients of a replica, in a fleet that needs more than a few replicas
STANDS = (1, 1, 5, 20)
CRON, CROWD = "cron", "crowd"
BEGINNINGS = (CRON, CROWD)
"""Storms that the fleet makes itself: all start in the same second; all want one name."""
STORMS = ("kill", "vanish", "rolling", "restart", "failover", "pause", "cut", *BEGINNINGS)
COMBINED = 0.3  # of the runs have two storms


@dataclass
class Fault:
    """Something that hits the fleet."""

    at: float
    what: str
    seconds: float
    """For how long."""
    where: int
    """Which replica, or which rack. RACKS: all of them."""
    lag: float
    """By how many seconds a database was behind that takes over."""


@dataclass
class Plan:
    """One run."""

    clients: int
    replicas: int
    stands: int
    """For how many clients of a real fleet each stands: all processors are so many times slower."""
    storms: tuple[str, ...]
    faults: list[Fault]
    start: float
    """Seconds over which the clients start."""
    over: float
    """When the last fault is over, and the fleet has started. A restart of all replicas takes as
    long as it takes."""


def draw(rng: Random, clients: int) -> Plan:
    """Draw a run."""
    replicas = max(rng.randint(3, 5), clients // LARGE)
    storms = tuple(rng.sample(STORMS, 2 if rng.random() < COMBINED else 1))
    start = 1.0 if CRON in storms else START
    faults = []
    over = start
    at = start + rng.uniform(3.0, 12.0)  # some time after the last renewal of each
    for what in storms:
        if what in BEGINNINGS:
            continue
        fault = Fault(
            at, what, rng.uniform(*_LASTS[what]), rng.randrange(replicas), rng.uniform(0.0, 1.0)
        )
        if what == "cut":
            fault.where = rng.randrange(RACKS + 1)
        faults.append(fault)
        over = max(over, at + fault.seconds)
        at += rng.uniform(0.0, 15.0)
    stands = 1 if clients > LARGE else rng.choice(STANDS)
    return Plan(clients, replicas, stands, storms, faults, start, over)


_LASTS = {
    "kill": (1.0, 10.0),
    "vanish": (3.0, 20.0),
    "rolling": (0.5, 5.0),  # from the return of one replica to the drain of the next
    "restart": (0.2, 5.0),
    "failover": (0.5, 10.0),
    "pause": (0.5, 8.0),
    "cut": (1.0, 60.0),
}
