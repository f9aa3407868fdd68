"""A scenario: a folder that says which site, which work, which faults, and what must hold."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).with_name("scenarios")
ALL = ("lock", "register", "queue", "lock", "rwlock", "semaphore", "lock_all", "election")


@dataclass(frozen=True)
class Scenario:
    """What scenario.toml says."""

    name: str
    site: str
    why: str
    ttl: float
    seconds: float
    """How long faults go on in CI; each kind comes as often as `each` says in any case."""
    seed: int = 1
    """The seed of CI."""
    each: int = 5
    """How often each kind of fault comes, at least,"""
    more: dict[str, int] = field(default_factory=dict)
    """and those of which there are more."""
    workers: int = 4
    node: int = 0
    """How many workers run the client in TypeScript, beside the others."""
    hands: int = 8
    workloads: tuple[str, ...] = ALL
    faults: tuple[str, ...] = ()
    """Those of the site, if none are named."""
    first: tuple[str, ...] = ()
    """Faults that come one at a time before the plan, twice as often as `each` says."""
    delta: float = 3.0
    """Seconds beyond the ttl after which a waiter must be granted when the faults have stopped:
    for clients to connect again, on two cores that serve everybody."""
    counted: tuple[str, ...] = ()
    """Checkers whose findings are counted and not held against this site."""
    ci: bool = True
    previous: str = ""
    """Another version of lockfast, which every other worker runs: see tests/previous."""
    carried: bool = False
    """Whether no lease may be lost because a replica of the lock service died."""
    order: bool = True
    """Whether there is a queue, so that grants come in the order of tickets."""


def load(name: str) -> Scenario:
    """Read one."""
    said = tomllib.loads((FOLDER / name / "scenario.toml").read_text("utf-8"))
    lists = {key: tuple(value) for key, value in said.items() if isinstance(value, list)}
    return Scenario(name=name, **{**said, **lists})


def names() -> list[str]:
    """Tell all there are."""
    return sorted(path.parent.name for path in FOLDER.glob("*/scenario.toml"))
