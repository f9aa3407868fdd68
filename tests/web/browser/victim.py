"""A process that holds a lock until it is lost, and then says what it was told.

`python -m tests.web.browser.victim URL NAME`
"""

from __future__ import annotations

import sys
import time

import lockfast


def main(url: str, name: str) -> None:
    """Hold the lock."""
    with lockfast.connect(url) as client:
        lease = client.lock(name, ttl=3, purpose="nightly run").acquire(timeout=10)
        _say("holds")
        lease.wait_lost(100)
        while (said := _told(lease)) is None:  # the record is read a moment later
            time.sleep(0.02)
        _say(said)


def _told(lease: lockfast.Lease) -> str | None:
    """Return what the process is told, once it has the record of the break."""
    try:
        lease.ensure_held()
    except lockfast.LeaseLost as lost:
        return None if lost.broken is None else lost.message
    return None


def _say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
