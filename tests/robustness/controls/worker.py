"""A worker with mutants of our own code switched in, before the code is read."""

from __future__ import annotations

import importlib
import os

from tests.robustness.controls import texts


def switched_in() -> None:
    """Switch in what LOCKFAST_MUTANT names, with a semicolon between two."""
    names = [name for name in os.environ["LOCKFAST_MUTANT"].split(";") if name]
    texts.switch_in(names)
    patches = importlib.import_module("tests.robustness.controls.patches").PATCHES
    for name in names:
        if name in patches:
            patches[name]()
        elif name not in texts.EDITS:
            raise texts.Rotten(f"there is no mutant {name!r}")


if __name__ == "__main__":
    switched_in()
    importlib.import_module("tests.robustness.controls.workloads").register()
    importlib.import_module("tests.robustness.traffic.worker").main()
