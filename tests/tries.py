"""Run pytest, and run what failed again, alone, at most three times: python -m tests.tries

Options come first: `-n` for how many tests run at once at the first try, `--gevent` to run on
gevent. All further arguments are pytest's.

A machine that stands still for seconds fails tests of time by chance. A bug that a test is there
to find fails each time. So a test counts as failed when it failed at every try. Each failure is
recorded (tests/stolen.py), and `.ci/run` names at its end the tests that needed another try.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

TRIES = 4
PAUSE = 15.0  # seconds before the second try, and as many more before each further one
SOME_FAILED = 1  # pytest's exit status; any other than this and 0 is no test's failure
AGAIN = ("-v", "--last-failed", "--last-failed-no-failures=none")


def main(argv: list[str]) -> int:
    """Run pytest until everything has passed once, and return its last exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.tries", allow_abbrev=False)
    parser.add_argument("-n", type=int, default=0, metavar="PROCESSES")
    parser.add_argument("--gevent", action="store_true")
    asked, rest = parser.parse_known_args(argv)
    patch = ["-m", "gevent.monkey", "--module", "pytest"] if asked.gevent else ["-m", "pytest"]
    pytest = [sys.executable, *patch, *rest]
    crowd = ["-n", str(asked.n), "--dist", "loadscope"] if asked.n else []
    status = subprocess.run([*pytest, *crowd], check=False).returncode
    for number in range(1, TRIES):
        if status != SOME_FAILED:
            break
        print(f"==> what failed is run again, try {number + 1} of {TRIES}", flush=True)  # noqa: T201  # for who reads the log
        time.sleep(PAUSE * number)
        status = subprocess.run([*pytest, *AGAIN], check=False).returncode
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
