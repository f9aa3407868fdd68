"""Stolen time: processor time that the hypervisor gives to other virtual machines.

While most of it is stolen, this machine stands still for seconds, and tests that measure time fail
whatever lockfast does. So each failure is recorded with the share that was stolen during the test,
and `python -m tests.stolen` runs only those again that failed on a machine that was not quiet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
FAILURES = ROOT / "build" / "failures.jsonl"  # of all runs since `make clean`
TRIES = ROOT / "build" / "second-tries.txt"
CACHE = ROOT / ".pytest_cache"
LIMIT = 0.1  # the share from which on a failure shows nothing
ROUNDS = 4
PATIENCE = 300.0  # seconds that a round waits for a quiet machine
STEAL = 8  # the column of /proc/stat
HZ = os.sysconf("SC_CLK_TCK")


def seconds() -> float:
    """Return the processor seconds that were stolen since the machine started."""
    try:
        first = Path("/proc/stat").read_text("ascii").partition("\n")[0].split()
    except OSError:  # not Linux
        return 0.0
    return int(first[STEAL]) / HZ if len(first) > STEAL else 0.0


class Watch:
    """Measures the share of the processors that is stolen, from its creation on."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._stolen = seconds()

    def share(self) -> float:
        """Return it: 0 is nothing, 1 is everything."""
        passed = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return (seconds() - self._stolen) / max(passed, 0.01)


def record(test: str, share: float) -> None:
    """Note a failure. Several processes may do so at once."""
    FAILURES.parent.mkdir(exist_ok=True)
    with FAILURES.open("a", encoding="utf-8") as file:
        file.write(json.dumps([test, round(share, 3)]) + "\n")


def wait_quiet(patience: float = PATIENCE) -> float:
    """Wait until less than the limit is stolen, for a while at most; return the last share."""
    end = time.monotonic() + patience
    while True:
        watch = Watch()
        time.sleep(3.0)
        share = watch.share()
        if share < LIMIT or time.monotonic() > end:
            return share


def failed(cache: Path) -> dict[str, float]:
    """Return the tests that failed last, with the share that was stolen meanwhile."""
    last = cache / "v" / "cache" / "lastfailed"
    names = json.loads(last.read_text("utf-8")) if last.exists() else {}
    shares: dict[str, float] = {}
    if FAILURES.exists():
        for line in FAILURES.read_text("utf-8").splitlines():
            test, share = json.loads(line)
            shares[test] = share
    return {name: shares.get(name, 0.0) for name in names}


def main() -> int:
    """Run `python -m tests.stolen [--crowd] [--cache=FOLDER] command`, which runs what failed.

    With --crowd each test has a second try: three at once on two cores starve each other. Without
    it, and from the third try on, a test that failed on a quiet machine has failed.
    """
    command = sys.argv[1:]
    crowd, cache = False, CACHE
    while command[0].startswith("--"):
        option = command.pop(0)
        crowd = crowd or option == "--crowd"
        cache = Path(option.partition("=")[2]) if option.startswith("--cache=") else cache
    for number in range(ROUNDS):
        tests = failed(cache)
        quiet = [name for name, share in tests.items() if share < LIMIT]
        if not tests or (quiet and not (crowd and number == 0)):
            print("not tried again, the machine was quiet:", *quiet, sep="\n  ", flush=True)
            return 1
        with TRIES.open("a", encoding="utf-8") as file:
            file.writelines(f"{name} ({share:.0%} stolen)\n" for name, share in tests.items())
        share = wait_quiet()
        print(f"{len(tests)} tests are tried again; {share:.0%} is stolen now", flush=True)
        if subprocess.run(command, check=False).returncode == 0:
            return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
