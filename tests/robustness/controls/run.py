"""Run controls, two at once at most, and tell in a table which checker said what."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from tests.robustness.controls.catalogue import CONTROLS
from tests.robustness.controls.trial import Control, Trial

AT_ONCE = 2  # on two cores
PATIENCE = 40.0  # seconds in which a mutant must be found


class Verdict(NamedTuple):
    """What came of one control."""

    control: Control
    said: list[str]
    rounds: int
    seconds: float
    failed: str

    @property
    def caught(self) -> bool:
        return bool(self.said) and not self.failed

    def __str__(self) -> str:
        control = self.control
        end = f"caught in {self.rounds} rounds, {self.seconds:.1f} s" if self.caught else "NOT CAUGHT"
        why = self.failed or (self.said[0] if self.said else f"within {self.seconds:.0f} s")
        return f"{control.name:32} {control.checker:18} {control.fault:46} {end}: {why}"


def tried(control: Control, seconds: float = PATIENCE, *, mutated: bool = True) -> Verdict:
    """Run one."""
    began = time.monotonic()
    trial = Trial(control, mutated=mutated)
    said: list[str] = []
    failed = ""
    try:
        with trial:
            said = trial.run(seconds)
    except Exception as error:  # noqa: BLE001  # whatever it is, this control has not passed
        failed = f"{type(error).__name__}: {error} {getattr(error, '__notes__', '')}"
        import traceback; traceback.print_exc()
    return Verdict(control, said, trial.round, time.monotonic() - began, failed)


def run(names: Sequence[str] = ()) -> int:
    """Run all, or those that are named. The exit status is 1 if any was not caught."""
    began = time.monotonic()
    controls = [each for each in CONTROLS if not names or each.name in names]
    missed = 0
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for verdict in pool.map(tried, controls):
            print(verdict, flush=True)
            missed += not verdict.caught
    print(
        f"{len(controls) - missed} of {len(controls)} controls caught "
        f"in {time.monotonic() - began:.0f} s"
    )
    return 1 if missed else 0
