"""What goes wrong in a run, drawn from its seed: kinds of faults and their times."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

FAULTY = 8.0  # seconds with faults
LATEST = 4.0  # seconds that a message may be late
BACK = 0.95  # seconds that the engine's clock goes back in all: less than a tombstone's margin
DRIFT = 0.0095  # how far a client's clock may be off: within core.validity.DRIFT
LOCKS = ("a", "b")
READERS = "readers"  # the name of a read/write lock
PERMITS = "permits"  # the name of a semaphore
NAMES = (LOCKS[:1], LOCKS[:1], LOCKS, LOCKS, (READERS,), (PERMITS,))


@dataclass
class Plan:
    """The faults of one run."""

    loss: float
    late: float
    double: float
    clients: int
    workers: int
    names: tuple[str, ...]
    ahead: bool
    """The engine's clock once ran fast, so that its counter alone orders the tokens."""
    drifts: list[float]
    events: list[tuple[float, str, float]] = field(default_factory=list)
    """When, what, and for how long or by how much."""


def draw(rng: Random) -> Plan:
    """Draw a plan. Each kind of fault is absent from many runs: faults hide one another."""
    clients = rng.choice((2, 3, 3))
    plan = Plan(
        loss=rng.choice((0.0, 0.03, 0.12)),
        late=rng.choice((0.0, 0.05, 0.2)),
        double=rng.choice((0.0, 0.2)),
        clients=clients,
        workers=rng.choice((1, 1, 2)),
        names=rng.choice(NAMES),
        ahead=rng.random() < 0.4,
        drifts=[rng.uniform(-DRIFT, DRIFT) for _ in range(clients)],
    )

    def some(what: str, chance: float, shortest: float, longest: float) -> None:
        while rng.random() < chance:
            at = rng.uniform(0.0, FAULTY)
            plan.events.append((at, what, min(rng.uniform(shortest, longest), FAULTY - at)))

    some("freeze", rng.choice((0.0, 0.6)), 0.2, 5.0)
    some("pause", rng.choice((0.0, 0.4)), 0.1, 3.0)  # the engine's process, and all sent to it
    some("restart", rng.choice((0.0, 0.3)), 0.1, 3.0)
    some("wipe", rng.choice((0.0, 0.0, 0.3)), 0.1, 2.0)
    some("failover", rng.choice((0.0, 0.0, 0.5)), 0.1, 1.0)  # to a replica that was behind
    if rng.random() < 0.5:
        for share in (0.6, 0.3, 0.1):
            plan.events.append((rng.uniform(0.0, FAULTY), "back", BACK * share))
    if rng.random() < 0.2:
        some("crash", 0.5, 0.0, 0.0)
    behind = [
        (max(at - rng.uniform(0.0, 4.0), 0.0), "replicate", 0.0)
        for at, what, _ in plan.events
        if what == "failover"
    ]
    plan.events = sorted(plan.events + behind)
    return plan
