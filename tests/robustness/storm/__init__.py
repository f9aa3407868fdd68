"""Storms: a fleet of thousands of clients, and what happens to all of them at once.

python -m tests.robustness storm
python -m tests.robustness storm --kind replica --clients 300 --ttl 6 --json
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

from tests.robustness.storm.storms import KINDS

__all__ = ["KINDS", "run"]


def run(kind: str, clients: int, ttl: float, say: Callable[[str], object]) -> int:
    """Run a storm, print its figures as one line of JSON, and return 1 if a rule was broken."""
    began = time.monotonic()
    figures = KINDS[kind](
        clients, ttl, lambda what: say(f"{time.monotonic() - began:6.1f} {kind}: {what}")
    )
    sys.stdout.write(json.dumps({"storm": kind, **figures}) + "\n")
    return bool(figures["violations"])
