"""Run the controls, two at once at most, and tell in a table which checker said what."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.robustness.controls import rules
from tests.robustness.controls.catalogue import CONTROLS
from tests.robustness.controls.trial import SEED, Control, Trial
from tests.robustness.simulation import batched, replicas
from tests.robustness.simulation.mutants import switched_in
from tests.robustness.simulation.run import run as simulated
from tests.robustness.stamp import version

AT_ONCE = 2  # on two cores
PATIENCE = 240.0  # seconds in which a mutant must be found; on a quiet machine luck is rarer
HEALTHY = 4.0  # seconds in which nothing may be found without it
SEEDS = 400
SIMULATED = ("expiry as a filter", *batched.MUTANTS, *replicas.MUTANTS)
"""Redis deletes what has expired by itself, and an engine that only filters would be another
engine: so the reference model is mutated, in the simulation. `spec/Expiry-filters.cfg` has it too.
The errors of batching need many requests at once and lost replies: there is more of both there.
Those of replicas have only replicas there.
"""


@dataclass(frozen=True)
class Verdict:
    """What came of one control."""

    control: str
    where: str
    checker: str
    fault: str
    said: str
    rounds: int
    seconds: float
    failed: str = ""
    """Why it could not be tried."""

    @property
    def caught(self) -> bool:
        return bool(self.said) and not self.failed

    def write(self, folder: Path) -> None:
        """Write result.json, for the report."""
        told = [{"checker": self.checker, "said": self.said}] if self.said else []
        result = {
            "scenario": f"{self.where}: {self.fault}",
            "engine": self.where,
            "site": self.where,
            "seed": SEED,
            "seconds": round(self.seconds, 1),
            "rounds": self.rounds,
            "violations": told,
            "control": self.control,
            "caught": self.caught,
            "version": version(),
        }
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n", "utf-8")

    def __str__(self) -> str:
        how = self.failed or self.said or "nothing was said"
        rounds = f"{self.rounds} x {self.fault}"
        return (
            f"{'caught' if self.caught else 'NOT CAUGHT':10} {self.control:32} {self.where:10} "
            f"{self.seconds:5.1f} s  {rounds:55} {self.checker}: {how}"
        )


def in_the_harness(control: Control, seconds: float, *, mutated: bool) -> Verdict:
    """Try one on real servers."""
    began = time.monotonic()
    trial = Trial(control, mutated=mutated)
    said, failed = "", ""
    try:
        with trial:
            said = next(iter(trial.run(seconds)), "")
    except Exception as error:  # noqa: BLE001  # whatever it is, this control was not caught
        failed = " ".join([repr(error), *getattr(error, "__notes__", ())])
    spent = time.monotonic() - began
    return Verdict(
        *(control.name, control.site, control.checker, control.fault, said, trial.round, spent),
        failed=failed,
    )


def in_the_simulation(mutant: str) -> Verdict:
    """Try one on the reference model."""
    began = time.monotonic()
    kind = next((each for each in (batched, replicas) if mutant in each.MUTANTS), None)
    first = kind.FOUND[mutant] if kind else 0
    run_one = kind.run if kind else simulated
    with kind.switched_in(mutant) if kind else switched_in(mutant):
        broken = ((seed, run_one(seed).broken) for seed in range(first, first + SEEDS))
        seed, said = next(((seed, said) for seed, said in broken if said), (first + SEEDS, None))
    spent = time.monotonic() - began
    told = f"seed {seed}: {said}" if said else ""
    return Verdict(mutant, "simulation", "the witness", "seeds", told, seed - first + 1, spent)


def in_the_procedures(chosen: str | None) -> list[Verdict]:
    """Try the rules of the procedures on MariaDB, or one of them, in the tests that have them."""
    names = {test.removeprefix("test_").replace("_", " "): test for test in rules.rules()}
    missed = rules.try_all([test for name, test in names.items() if chosen in (None, name)])
    return [
        Verdict(
            *(each.test.removeprefix("test_").replace("_", " "), "mysql", rules.FILE.stem),
            "none: the rule is taken away",
            "" if each.failed else "the test passes with the rule, and fails without it",
            *(each.cases, each.seconds, each.failed),
        )
        for each in missed
    ]


def run(out: Path, chosen: str | None = None, *, mutated: bool = True) -> int:
    """Run all, or one. The exit status is 1 if any was not caught.

    Without the mutants it is 1 if anything was said: a checker that cries always shows nothing.
    """
    shutil.rmtree(out, ignore_errors=True)
    began = time.monotonic()
    seconds = PATIENCE if mutated else HEALTHY
    trials: list[Callable[[], Verdict]] = [
        partial(in_the_harness, control, seconds, mutated=mutated)
        # The one that waits for elections takes as long as all others: it begins first.
        for control in sorted(CONTROLS, key=lambda each: each.site != "zookeeper")
        if chosen in (None, control.name) and (mutated or control.mutant)
    ]
    verdicts = []
    if mutated:  # one by one and first: they patch this process
        verdicts = [in_the_simulation(name) for name in SIMULATED if chosen in (None, name)]
        verdicts += in_the_procedures(chosen)
        print(*verdicts, sep="\n", flush=True)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for verdict in pool.map(lambda trial: trial(), trials):
            print(verdict, flush=True)
            verdicts.append(verdict)
    for verdict in verdicts:
        verdict.write(out / verdict.control.replace(" ", "-"))
    caught = sum(verdict.caught for verdict in verdicts)
    spent = time.monotonic() - began
    print(f"{caught} of {len(verdicts)} controls caught in {spent:.0f} s; {out}")
    failed = any(verdict.failed for verdict in verdicts)
    return failed or caught != (len(verdicts) if mutated else 0)
