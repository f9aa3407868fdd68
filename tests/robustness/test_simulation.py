"""Seeds of the simulation: some here, thousands in `make faults`. And its controls."""

from __future__ import annotations

import gc
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from unittest.mock import patch

import pytest

from lockfast.runtime import base
from tests.robustness.simulation import ballots, batched, redlock, replicas
from tests.robustness.simulation.many import run_many
from tests.robustness.simulation.mutants import MUTANTS, switched_in
from tests.robustness.simulation.run import Outcome, run

SEEDS = 100
ENOUGH = 400  # seeds in which every mutant must have been found
HAPPENS = (
    "grants",
    "writes",
    "readings",
    "Deadlock",
    "KindMismatch",
    "refusals",
    "lost by the twin",
    "tokens that may repeat",
    "freeze",
    "crash",
    "pause",
    "restart",
    "wipe",
    "failover",
    "back",
)


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    """Collect garbage between tests only: it is half of the time."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def story(seed: int) -> str:
    """Tell the end of a failed run, and how to see the whole."""
    outcome = run(seed, tracing=True)
    replay = f"python -m tests.robustness.simulation --seed {seed}"
    return "\n".join([*outcome.trace[-60:], f"seed {seed}: {outcome.broken}", replay])


def test_no_rule_is_broken_whatever_goes_wrong() -> None:
    seen: Counter[str] = Counter()
    for batch in run_many(0, SEEDS, processes=1):
        seed = min(batch.broken, default=None)
        assert seed is None, story(seed)
        seen += batch.seen
    assert [what for what in HAPPENS if not seen[what]] == [], "nothing is shown by what never was"


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_way_of_building_it_is_found(mutant: str) -> None:
    with switched_in(mutant):
        assert any(run(seed).broken for seed in range(ENOUGH)), "the simulation cannot tell"


def test_no_rule_is_broken_on_redlock() -> None:
    seen: Counter[str] = Counter()
    for batch in run_many(0, SEEDS // 25, 1, redlock.run):
        assert batch.broken == {}, "python -m tests.robustness.simulation --redlock --seed N"
        seen += batch.seen
    assert [what for what in ("grants", "writes", "wipe", "pause") if not seen[what]] == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("mutant", ballots.MUTANTS)
def test_a_broken_way_of_building_redlock_is_found(mutant: str) -> None:
    first = ballots.FOUND[mutant]
    with ballots.switched_in(mutant):
        seeds = range(first, first + ENOUGH)
        assert any(redlock.run(seed).broken for seed in seeds), "the simulation cannot tell"


def test_no_rule_is_broken_by_clients_that_batch() -> None:
    seen: Counter[str] = Counter()
    for batch in run_many(0, SEEDS // 5, 1, batched.run):
        assert batch.broken == {}, "python -m tests.robustness.simulation --batched --seed N"
        seen += batch.seen
    assert [what for what in ("grants", "claims made together", "wipe") if not seen[what]] == []


@pytest.mark.parametrize("mutant", batched.MUTANTS)
def test_a_broken_way_of_batching_is_found(mutant: str) -> None:
    first = batched.FOUND[mutant]
    with batched.switched_in(mutant):
        seeds = range(first, first + ENOUGH)
        assert any(batched.run(seed).broken for seed in seeds), "the simulation cannot tell"


def test_no_rule_is_broken_by_clients_that_move_between_replicas() -> None:
    seen: Counter[str] = Counter()
    for batch in run_many(0, SEEDS // 2, 1, replicas.run):
        assert batch.broken == {}, "python -m tests.robustness.simulation --replicas --seed N"
        seen += batch.seen
    happens = (*HAPPENS[:3], "moves", "calm runs", "wipe", *replicas.FAULTS)
    assert [what for what in happens if not seen[what]] == []


@pytest.mark.parametrize("mutant", replicas.MUTANTS)
def test_a_broken_way_of_moving_between_replicas_is_found(mutant: str) -> None:
    first = replicas.FOUND[mutant]
    with replicas.switched_in(mutant):
        seeds = range(first, first + ENOUGH)
        assert any(replicas.run(seed).broken for seed in seeds), "the simulation cannot tell"


@contextmanager
def _clocks_that_race() -> Iterator[None]:
    """Make the machine's clocks run 10,000 times as fast, wherever lockfast has imported them.

    A loaded machine is a fast clock to what runs on it.
    """
    ours = (time.monotonic, time.time, time.perf_counter, base.now)
    racing = {clock: partial(_racing, clock, clock()) for clock in ours}
    with ExitStack() as patches:
        for clock in (time.monotonic, time.time, time.perf_counter):
            patches.enter_context(patch.object(time, clock.__name__, racing[clock]))
        for module in [m for name, m in sys.modules.items() if name.startswith("lockfast.")]:
            for name, value in list(vars(module).items()):
                for clock in (each for each in ours if each is value):
                    patches.enter_context(patch.object(module, name, racing[clock]))
        yield


def _racing(clock: Callable[[], float], began: float) -> float:
    return began + (clock() - began) * 10_000


@pytest.mark.parametrize("once", [run, redlock.run, batched.run, replicas.run])
def test_a_seed_replays_to_the_last_message(once: Callable[..., Outcome]) -> None:
    first = once(11, tracing=True).trace
    assert len(first) > 100
    with _clocks_that_race():
        again = once(11, tracing=True).trace
    differ = next((pair for pair in zip(first, again, strict=False) if pair[0] != pair[1]), None)
    assert differ is None  # and no difference of 2,000 lines
    assert len(again) == len(first)
