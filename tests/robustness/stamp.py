"""The stamp of a result: on which day it was made, and from which commit."""

from __future__ import annotations

import contextlib
import subprocess
import time
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]


def today() -> str:
    """Tell the date, as Coordinated Universal Time has it."""
    return time.strftime("%Y-%m-%d", time.gmtime())


def version() -> str:
    """Tell the commit of the code, if this is a clone."""
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        argv = ["git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"]
        return subprocess.check_output(argv, text=True, stderr=subprocess.DEVNULL).strip()
    return ""
