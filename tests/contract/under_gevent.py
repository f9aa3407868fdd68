"""A program under gevent whose wait for a lock must not be late, nor stop the other greenlets."""

from __future__ import annotations

import subprocess
import sys

PLAY = """
from gevent import monkey; monkey.patch_all()
import gevent, time, sys
import lockfast
url = sys.argv[1]
with lockfast.connect(url) as client, lockfast.connect(url) as other:
    with client.lock("x", ttl=2):
        ticks = []
        def tick():
            while True:
                gevent.sleep(0.1)
                ticks.append(time.monotonic())
        ticking = gevent.spawn(tick)
        began = time.monotonic()
        try:
            other.lock("x", ttl=2).acquire(timeout=3)
        except lockfast.NotAcquired:
            print("in vain", round(time.monotonic() - began))
        print("ticks", len(ticks) > 15)
        waiting = gevent.spawn(lambda: other.lock("x", ttl=2).acquire(timeout=10))
        gevent.sleep(0.3)
    waiting.get(timeout=5).release()
    ticking.kill()
print("done")
"""


def waited(url: str) -> None:
    """Wait for a lock of an engine in a process of its own, and check what it says."""
    ran = subprocess.run(
        [sys.executable, "-c", PLAY, url], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.split("\n") == ["in vain 3", "ticks True", "done", ""], ran.stderr
