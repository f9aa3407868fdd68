"""Runs a command that the kernel kills when its parent ends: Python runs this file as a script.

The demo needs this because a worker that is stopped cannot notice that the demo was killed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PDEATHSIG = 1  # PR_SET_PDEATHSIG of prctl(2); the setting survives exec


def leashed(*argv: str) -> list[str]:
    """Return the command line that runs a command and lets it die with its parent."""
    return [sys.executable, "-I", __file__, *argv]  # as a file, so that lockfast is not imported


if __name__ == "__main__":
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PDEATHSIG, signal.SIGKILL)
    os.execvp(sys.argv[1], sys.argv[1:])  # noqa: S606  # the caller chose the command
