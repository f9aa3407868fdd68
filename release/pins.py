"""The pins of requirements-dev.txt, for pip where not all of them are installed.

With hashes in a file of constraints, pip refuses every package that is not named with its version,
and so does not choose those that a package needs. So it gets the versions, and what it has
downloaded is compared with the hashes before anything of it is installed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from release.steps import ROOT, Refused

PINS = ROOT / "requirements-dev.txt"


def constraints(target: Path) -> Path:
    """Write the versions as constraints, and return the file."""
    versions = re.findall(r"^\S+==\S+", PINS.read_text("utf-8"), re.MULTILINE)
    target.write_text("".join(f"{each}\n" for each in versions), "utf-8")
    return target


def check(downloads: Iterable[Path]) -> None:
    """Raise `Refused` if a file is not one of those that are pinned."""
    pinned = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", PINS.read_text("utf-8")))
    others = [path.name for path in downloads if digest(path) not in pinned]
    if others:
        raise Refused(f"not as {PINS.name} has them: {', '.join(sorted(others))}")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
