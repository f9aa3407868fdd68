"""Empty environments, into which nothing comes but what a page's own lines install.

Everything that any page may install is downloaded once, in the versions of requirements-dev.txt and
with their hashes. An environment then takes two or three seconds, and pip finds our wheel there as
it would find a release.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from release.pins import PINS, check, constraints
from tests.docs.page import ROOT

PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
OURS = re.compile(r"lockfast(?:\[(.*)\])?")
LONG = 300


def run(*argv: str) -> None:
    """Run a command to its end; show what it said if it failed."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, check=False)
    assert done.returncode == 0, f"{' '.join(argv)}\n{done.stdout}{done.stderr}"


class Wheelhouse:
    """A folder of wheels, ours among them, and the environments that were made from it."""

    def __init__(self, folder: Path, packages: Iterable[str], wheel: Path | None = None) -> None:
        """Build our wheel, or take this one, and bring what the packages need.

        The downloads stay for later runs.
        """
        self._folder = folder
        self._wheels = folder / "wheels"
        self._made: dict[frozenset[str], Path] = {}
        shutil.rmtree(folder / "environments", ignore_errors=True)
        self._wheels.mkdir(parents=True, exist_ok=True)
        for old in self._wheels.glob("lockfast*.whl"):
            old.unlink()
        if wheel is None:
            self.build(ROOT)
        else:
            shutil.copy(wheel, self._wheels)
        self._download(sorted(set(packages)))

    def build(self, source: Path) -> None:
        """Build a wheel, and keep it here."""
        build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir")
        run(*build, str(self._wheels), str(source))

    def _download(self, packages: list[str]) -> None:
        wanted = (ROOT / "pyproject.toml").read_bytes() + PINS.read_bytes()
        digest = hashlib.sha256(" ".join(packages).encode() + wanted).hexdigest()
        stamp = self._folder / "complete"
        if stamp.exists() and stamp.read_text("utf-8") == digest:
            return
        (wheel,) = self._wheels.glob("lockfast-*.whl")
        # Another version than the pinned one would be installed if it is newer.
        for old in set(self._wheels.iterdir()) - {wheel}:
            old.unlink()
        ours = [found[1] for each in packages if (found := OURS.fullmatch(each)) and found[1]]
        others = [each for each in packages if not OURS.fullmatch(each)]
        named = [f"lockfast[{','.join(ours)}] @ {wheel.as_uri()}", *others]
        versions = ("--constraint", str(constraints(self._folder / "constraints.txt")))
        files = ("--only-binary", ":all:", "--dest", str(self._wheels))
        run(*PIP, "download", *files, *versions, *named)
        check(path for path in self._wheels.iterdir() if path != wheel)
        stamp.write_text(digest, "utf-8")

    def environment(self, packages: frozenset[str]) -> Path:
        """Give the folder of an environment that has these packages and what they need."""
        if packages not in self._made:
            made = self._folder / "environments" / str(len(self._made))
            run(sys.executable, "-m", "venv", "--without-pip", str(made))
            if packages:
                only = ("--no-index", "--find-links", str(self._wheels), "--no-compile")
                python = str(made / "bin" / "python")
                run(*PIP, "--python", python, "install", *only, *sorted(packages))
            self._made[packages] = made
        return self._made[packages]
