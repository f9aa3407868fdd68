"""Many processes increment one register under short leases, and are stopped in the midst of it.

A process acquires, seals, reads, and writes a batch of increments, each built on the one before.
Whoever holds is stopped now and then for longer than its lease, so that it goes on as a zombie.
Every write says which write it was built on, so the last value leads back to the first: the chain
holds exactly those that were applied. Then it is known, and not guessed, that
- every write that was acknowledged is in it: none was overwritten by somebody who had not read it;
- none that was refused is in it;
- of those whose outcome nobody knows (the connection broke at the commit), which were applied.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from tests.guards.story import Resource

_ROOT = Path(__file__).parents[2]


class Register(Resource, Protocol):
    """A story's resource that blocks, and begins with the value `0 start`."""

    broken: ClassVar[tuple[type[Exception], ...]]
    """What it raises, beside lockfast's errors, when a write failed or its outcome is unknown."""


@dataclass(frozen=True)
class Plan:
    """How much of it."""

    folder: str
    increments: int = 20_000
    processes: int = 32
    ttl: float = 0.2
    batch: int = 60
    refusals: int = 110
    """How many zombies are wanted; not every stop makes one."""


@dataclass(frozen=True)
class Report:
    """What came of it."""

    value: int
    """The last value of the register: that many writes were applied, one on the other."""
    acknowledged: int
    unknown: int
    """Every other error: failed, or broken off at the commit."""
    unknown_applied: int
    refused: int
    """By the register: `StaleToken`."""
    lost: int
    """By its own clock, before it asked the register: `LeaseLost`."""
    missing: list[str]
    """Acknowledged, and overwritten by somebody who had not read them."""
    stale: list[str]
    """Refused, and applied all the same."""
    stops: int
    seconds: float


def hammer(
    url: str,
    resource: type[Register],
    where: str,
    plan: Plan,
    midway: Callable[[], None] = lambda: None,
) -> Report:
    """Strike; `midway` is called once, when half of it is done."""
    which = f"{resource.__module__}:{resource.__qualname__}"
    began = time.monotonic()
    smithy = subprocess.Popen(
        [sys.executable, "-m", "tests.guards.smithy", url, which, where, _packed(plan)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said = ""
    halved = False
    try:
        assert smithy.stdout is not None
        for line in smithy.stdout:
            said = line
            if not halved and said[0] != "{" and int(said) * 2 >= plan.increments:
                halved = True
                midway()
        assert smithy.wait(30) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(smithy.pid, signal.SIGKILL)
        smithy.wait()
        assert smithy.stdout is not None
        smithy.stdout.close()
    found = json.loads(said)
    return _judged(plan, found["value"], found["stops"], time.monotonic() - began)


def _packed(plan: Plan) -> str:
    return json.dumps(dataclasses.asdict(plan))


def _judged(plan: Plan, last: str, stops: int, seconds: float) -> Report:
    built_on: dict[str, str] = {}
    outcomes: dict[str, set[str]] = {
        each: set() for each in ("acked", "refused", "lost", "unknown")
    }
    for path in Path(plan.folder).glob("*.log"):
        for line in path.read_text("ascii").splitlines():
            outcome, mine, base = line.split()
            outcomes[outcome].add(mine)
            built_on[mine] = base
    value, _, at = last.partition(" ")
    chain: set[str] = set()
    while at in built_on and at not in chain:
        chain.add(at)
        at = built_on[at]
    assert at == "start", f"the chain breaks at {at!r}"
    assert len(chain) == int(value)
    return Report(
        value=int(value),
        acknowledged=len(outcomes["acked"]),
        unknown=len(outcomes["unknown"]),
        unknown_applied=len(outcomes["unknown"] & chain),
        refused=len(outcomes["refused"]),
        lost=len(outcomes["lost"]),
        missing=sorted(outcomes["acked"] - chain),
        stale=sorted((outcomes["refused"] | outcomes["lost"]) & chain),
        stops=stops,
        seconds=seconds,
    )
