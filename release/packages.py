"""The wheel and the source package, built twice from the commit and compared byte by byte."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from release.pins import digest
from release.steps import HOME, ROOT, Refused, run

DIST = ROOT / "dist"
NO_ADDRESS = """\
The repository has no address yet, so the links on the package index would lead nowhere. Write it
into pyproject.toml:

    [tool.hatch.metadata.hooks.custom]
    repository = "https://..."

`make rehearse` does everything else without it."""


def check_address() -> None:
    """Raise `Refused` if pyproject.toml does not say where the repository is."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    if not pyproject["tool"]["hatch"]["metadata"]["hooks"]["custom"]["repository"]:
        raise Refused(NO_ADDRESS)


def check_commit() -> None:
    """Raise `Refused` if a file of the repository is not as it is in the commit."""
    changed = run("git", "status", "--porcelain")
    if changed:
        raise Refused(f"These files are not committed, and would not be released:\n{changed}")


def build() -> list[Path]:
    """Build the packages of this commit, twice, and return them if both builds are the same."""
    builds = []
    for number, umask in enumerate((0o022, 0o077)):
        folder = HOME / f"build-{number}"
        shutil.rmtree(folder, ignore_errors=True)
        builds.append(_built(folder, umask))
    first, second = (_digests(folder) for folder in builds)
    if first != second:
        raise Refused(f"two builds of one commit differ: {first} {second}")
    shutil.rmtree(DIST, ignore_errors=True)
    shutil.copytree(builds[0], DIST)
    return sorted(DIST.iterdir())


def _built(folder: Path, umask: int) -> Path:
    """Build in a new folder of another name, with other file modes and times than the last one."""
    commit = run("git", "log", "-1", "--format=%ct").strip()
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as place:
        before = os.umask(umask)
        try:
            _unpack(Path(place))
            run(
                *(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, place),
                env={**os.environ, "SOURCE_DATE_EPOCH": commit},
            )
        finally:
            os.umask(before)
    return folder


def _unpack(place: Path) -> None:
    argv = ("git", "archive", "HEAD")
    packed = subprocess.run(argv, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        for each in files:
            each.mtime = 0  # as a clone has it: another time each
            files.extract(each, place, filter="data")


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: digest(path) for path in sorted(folder.iterdir())}
