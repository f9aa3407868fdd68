"""What the tests cost: processor seconds of each file, with the servers that it started.

python -m tests.cost prints the dearest files of the last run of `make test`. Both cores are busy
then, so these seconds, and not those that a test waits, are what a run takes.
"""

from __future__ import annotations

import os
import sys

from tests.stolen import BUILD

COSTS = BUILD / "costs.txt"  # since the last `make clean`: processor seconds and the name of a test
SHOWN = 40


def spent() -> float:
    """Return the processor seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


def record(test: str, seconds: float) -> None:
    """Record what a test has cost. Several processes may do so at once."""
    COSTS.parent.mkdir(exist_ok=True)
    with COSTS.open("a", encoding="utf-8") as file:
        file.write(f"{seconds:.2f} {test}\n")


def main() -> None:
    """Print the sums of the dearest files, and of all."""
    files: dict[str, float] = {}
    for line in COSTS.read_text("utf-8").splitlines():
        seconds, _, test = line.partition(" ")
        name = test.partition("::")[0]
        files[name] = files.get(name, 0.0) + float(seconds)
    for name in sorted(files, key=files.__getitem__, reverse=True)[:SHOWN]:
        sys.stdout.write(f"{files[name]:8.1f} s  {name}\n")
    sys.stdout.write(f"{sum(files.values()):8.1f} s  in all\n")


if __name__ == "__main__":
    main()
