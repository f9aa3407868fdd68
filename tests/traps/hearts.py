"""A program that counts its threads: `python -m tests.traps.hearts URL`."""

from __future__ import annotations

import sys
import threading
from functools import partial
from pathlib import Path

import lockfast
from tests.servers import wait_until
from tests.traps.waiting import in_background

PATIENCE = 10.0


def threads_are(count: int) -> bool:
    """Count also those that Python's `threading` does not know."""
    return len(list(Path("/proc/self/task").iterdir())) == count


def main(url: str) -> None:
    """Let eight threads begin at once with a new client, five times."""
    assert threads_are(1)
    for _ in range(5):
        client = lockfast.connect(url)
        start = threading.Barrier(8)

        def begin(
            number: int, client: lockfast.Client = client, start: threading.Barrier = start
        ) -> lockfast.Lease:
            start.wait()
            return client.lock(f"x-{number}").acquire()

        begun = [in_background(partial(begin, number)) for number in range(8)]
        leases = [each.result(PATIENCE) for each in begun]
        for lease in leases:
            lease.ensure_held()
        wait_until(partial(threads_are, 2), "there is one heart, and nobody else", PATIENCE)
        client.close()
        wait_until(partial(threads_are, 1), "the heart has ended", PATIENCE)


if __name__ == "__main__":
    main(sys.argv[1])
