"""A leash: this file, run by Python, becomes a command that dies with whoever started it.

A worker that is stopped cannot notice that the demo was killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PDEATHSIG = 1  # of prctl(2); it outlives exec


def leashed(*argv: str) -> list[str]:
    """Return the command line that starts a command on a leash."""
    return [sys.executable, "-I", __file__, *argv]  # as a file: nothing of lockfast is imported


if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  # that is what it is for
