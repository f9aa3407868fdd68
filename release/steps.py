"""How a step of the release runs, and what is shown of it."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / "build" / "release"
LONG = 900.0
"""How long one command may take, in seconds."""


class Refused(Exception):
    """There is no release, and this text says why."""


@contextmanager
def step(what: str) -> Iterator[None]:
    """Show what is done, and how long it took."""
    print(f"==> {what}", flush=True)
    began = time.monotonic()
    yield
    print(f"<== {what}: {time.monotonic() - began:.0f} s", flush=True)


def run(*argv: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=LONG,
        check=False,
    )
    if done.returncode:
        raise Refused(f"{' '.join(map(str, argv))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout


def pip(python: Path, *argv: str | Path) -> str:
    """Run this environment's pip for another one, which has none."""
    return run(sys.executable, "-m", "pip", "-qq", "--python", python, *argv)
