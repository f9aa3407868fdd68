"""Run pytest, and what failed again, alone: python -m tests.tries

`-n`: how many tests run at once at the first try. `--gevent`: run on gevent. `--uvloop`: asyncio on
uvloop. `--each`: files that run at once at the first try, each in a process of its own, where xdist
cannot be used. All other arguments are pytest's. `--and` stands between two such command lines that
run at once.

What failed is run again, alone. What fails at that second try has failed, unless the hypervisor
had taken the processors away meanwhile (tests/stolen.py): then it is run again, at most so often
that it had four tries. `.ci/run` names at its end every test that needed another try.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from typing import NamedTuple

from tests import stolen

TRIES = 4
PAUSE = 15.0  # seconds before the second try, and as many more before each further one
SOME_FAILED = 1  # pytest's exit status; any other than this and 0 is no test's failure
SHARED = ("--dist", "loadscope", "--no-loadscope-reorder")  # in the order of tests/order.py
TOGETHER = "--and"
AGAIN = ("-v", "--last-failed", "--last-failed-no-failures=none")


class Run(NamedTuple):
    """One process of pytest, which knows from its own cache what failed in it."""

    argv: list[str]
    env: dict[str, str]
    crowd: list[str]
    """What has it share its tests among several processes, at the first try."""


def main(argv: list[str]) -> int:
    """Run pytest until everything has passed or failed for good; return its last exit status."""
    runs: list[Run] = []
    while argv:
        end = argv.index(TOGETHER) if TOGETHER in argv else len(argv)
        runs += _runs(argv[:end])
        argv = argv[end + 1 :]
    started = [subprocess.Popen([*run.argv, *run.crowd], env=run.env) for run in runs]
    statuses = [each.wait() for each in started]
    return max(_again(run, status) for run, status in zip(runs, statuses, strict=True))


def _runs(argv: list[str]) -> list[Run]:
    parser = argparse.ArgumentParser(prog="python -m tests.tries", allow_abbrev=False)
    parser.add_argument("-n", type=int, default=0, metavar="PROCESSES")
    parser.add_argument("--gevent", action="store_true")
    parser.add_argument("--uvloop", action="store_true")
    parser.add_argument("--each", nargs="+", default=[], metavar="FILE")
    asked, rest = parser.parse_known_args(argv)
    patch = ["-m", "gevent.monkey", "--module", "pytest"] if asked.gevent else ["-m", "pytest"]
    pytest = [sys.executable, *patch, *rest]
    env = os.environ | ({"LOCKFAST_TEST_LOOP": "uvloop"} if asked.uvloop else {})
    crowd = ["-n", str(asked.n), *SHARED] if asked.n else []
    how = "gevent" if asked.gevent else "uvloop" if asked.uvloop else ""
    return [
        Run([*pytest, "-o", f"cache_dir={_cache(file, how)}", file], env, crowd)
        for file in asked.each
    ] or [Run(pytest, env, crowd)]


def _again(run: Run, status: int) -> int:
    """Run what failed again, until it has passed or failed for good, and return pytest's status."""
    quiet = False
    for number in range(1, TRIES):
        if status != SOME_FAILED or quiet:
            break
        print(f"==> what failed is run again, try {number + 1} of {TRIES}", flush=True)  # noqa: T201  # for who reads the log
        time.sleep(PAUSE * number)
        before = len(stolen.recorded())
        status = subprocess.run([*run.argv, *AGAIN], env=run.env, check=False).returncode
        quiet = min(stolen.recorded()[before:], default=0.0) < stolen.QUIET
    return status


def _cache(file: str, how: str) -> str:
    return str(stolen.BUILD / "caches" / how / file.replace("/", "."))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
