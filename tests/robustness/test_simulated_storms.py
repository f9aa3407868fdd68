"""Small storms of the simulation, in processes as its command has them, and its mutants."""

from __future__ import annotations

import subprocess
import sys
from random import Random

import pytest

from lockfast.core import queue
from lockfast.port import Ask, Shape, Standing
from tests.robustness.simulation.storms import MUTANTS
from tests.robustness.simulation.storms.database import Queues
from tests.robustness.simulation.storms.plan import STORMS

COMMAND = (sys.executable, "-m", "tests.robustness.simulation", "--storm", "--processes", "1")
FOUND = {
    "renewals are refused under load": (1, 2),
    "what was sent is called unsent": (2, 4),
    "a client that moves has another name": (0, 1),
    "tickets are forgotten": (9, 1),
}
"""For each mutant, from which seed on it is looked for, and in how many seeds."""


def simulate(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(  # our own command
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=110
    )


def test_no_storm_breaks_a_rule() -> None:
    done = simulate("--clients", 60, "--seeds", 24)
    assert done.returncode == 0, done.stdout + done.stderr
    happened = ("entries", "NotAcquired", "claims that the database lost", "lost: unreachable")
    missing = [what for what in (*STORMS, *happened) if f"{what}: " not in done.stdout]
    assert missing == [], "nothing is shown by what never was"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_way_of_building_it_is_found_in_a_storm(mutant: str) -> None:
    first, seeds = FOUND[mutant]
    done = simulate("--clients", 200, "--first", first, "--seeds", seeds, "--mutant", mutant)
    assert done.returncode == 1, "the simulation cannot tell"
    assert "seed" in done.stdout, done.stderr


def test_a_storm_replays_to_the_last_message() -> None:
    first, again = (simulate("--clients", 60, "--seed", 7) for _ in range(2))
    assert first.stdout.count("\n") > 1000, first.stderr
    differ = zip(first.stdout.splitlines(), again.stdout.splitlines(), strict=True)
    assert next((pair for pair in differ if pair[0] != pair[1]), None) is None


@pytest.mark.parametrize("seed", range(20))
def test_the_database_answers_as_the_reference_model(seed: int) -> None:
    rng = Random(seed)  # noqa: S311  # no secret
    model, ours = queue.Queues(), Queues()
    asks: list[Ask] = []
    now = 1000.0
    for _ in range(300):
        now += rng.choice((0.0, 0.1, 1.0, 4.0))
        deed = rng.choice(("claim", "claim", "again", "renew", "renew", "renew", "resign"))
        if deed == "claim" or not asks:
            shape = Shape(rng.choice("ab"), rng.choice((3.0, 12.0, 30.0)))
            last = now + rng.uniform(-0.5, shape.wait_ttl)
            asks.append(Ask(f"{len(asks):032x}", shape, rng.random() < 0.8, last, b""))
        ask = asks[-1] if deed == "claim" else rng.choice(asks[-8:])
        said: list[Standing | bool | None]
        if deed == "resign":
            doubt = rng.random() < 0.5
            said = [each.resign(ask, now, doubt=doubt) for each in (model, ours)]
        elif deed == "renew":
            said = [each.renew(ask, now) for each in (model, ours)]
        else:
            said = [each.claim(ask, now) for each in (model, ours)]
        # They count differently who waits: see `Queues._alive`. And ours looks at the holder alone.
        plain = [
            each._replace(ahead=0, behind=0, recheck=each.recheck and 1.0)
            if isinstance(each, Standing)
            else each
            for each in said
        ]
        assert plain[0] == plain[1]
        assert sorted(model.wakes) == sorted(ours.wakes)
