"""Run the unit tests and the contract on every Python from 3.11 on that this machine has.

`make test` runs everything on one Python. This runs a part of it on the others, from the wheel: the
unit tests, and the contract on the memory engine, on Redis, and on SQLite, whose driver is Python's
own, with threads and with asyncio. With `--newest`, it runs them on the newest Python only, as CI
does, and with a version, such as `3.12`, on that one, even if it is the one of `make test`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
HOME = ROOT / "build" / "pythons"
OLDEST = (3, 11)
CONTRACT = [f"tests/contract/test_{engine}.py" for engine in ("memory", "redis", "sqlite")]
TESTS = ["tests/unit", *CONTRACT]
# The first imports the benchmarks, and with them every library that we compare ourselves with. The
# second starts pytest 15 times, and is about how we test: `make test` has it.
LEFT_OUT = ["--ignore=tests/unit/test_benchmarks.py", "--ignore=tests/unit/test_tries.py"]
# Fewer examples of each property: `make test` tries them all, on one Python.
FEWER = ["--hypothesis-profile=quick"]
ASK = "import sys; print(*sys.version_info[:2], sys.implementation.name, sys.version_info[3])"
Version = tuple[int, int]


def candidates() -> Iterator[Path]:
    """Yield every program that is called like a Python: those of pyenv, and those on PATH."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    folders = [*sorted(pyenv.glob("*/bin"), reverse=True)]
    folders += [Path(folder) for folder in os.get_exec_path()]
    for folder in folders:
        for path in sorted(folder.glob("python3.*")):
            if re.fullmatch(r"python3\.\d+", path.name):
                yield path


def found() -> dict[Version, Path]:
    """Find one released CPython of each version."""
    pythons: dict[Version, Path] = {}
    for path in candidates():
        # A shim of pyenv for a version that is not chosen fails: then it is no Python.
        asked = subprocess.run([path, "-c", ASK], capture_output=True, text=True, check=False)
        if asked.returncode == 0:
            major, minor, name, level = asked.stdout.split()
            version = (int(major), int(minor))
            if version >= OLDEST and (name, level) == ("cpython", "final"):
                pythons.setdefault(version, path)
    return dict(sorted(pythons.items()))


def run(*argv: str | Path) -> None:
    """Run a command that must succeed."""
    subprocess.run(argv, cwd=ROOT, check=True)


def wheel() -> Path:
    """Build the wheel."""
    shutil.rmtree(HOME, ignore_errors=True)
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", HOME, ROOT)
    (built,) = HOME.glob("*.whl")
    return built


def prepare(python: Path, home: Path, built: Path) -> None:
    """Make an environment of that Python, with our wheel and what `make quick` needs."""
    run(python, "-m", "venv", "--without-pip", home)
    pip = (sys.executable, "-m", "pip", "-qq", "--python", str(home / "bin" / "python"))
    run(*pip, "install", "--require-hashes", "-r", ROOT / "requirements-quick.txt")
    run(*pip, "install", "--no-deps", built)


def passes(home: Path) -> bool:
    """Run the tests in an environment, as many at once as `make test` does.

    One Python after another: what failed is run again alone, and would not be beside another one.
    """
    argv = [home / "bin" / "python", "-m", "tests.tries", "-n", "6", "-q"]
    argv += ["-o", f"cache_dir={home / 'cache'}", *FEWER, *LEFT_OUT, *TESTS]
    return subprocess.run(argv, cwd=ROOT, check=False).returncode == 0


def main(argv: list[str]) -> int:
    """Test every Python but the one that `make test` uses; return an exit code."""
    pythons = found()
    own = sys.version_info[:2]
    print(f"Python {own[0]}.{own[1]} is the one of `make test`")
    if len(argv) == 1 and (asked := re.fullmatch(r"(\d+)\.(\d+)", argv[0])):
        version = (int(asked[1]), int(asked[2]))
        if version not in pythons:
            print(f"this machine has no Python {argv[0]}", file=sys.stderr)
            return 1
        pythons = {version: pythons[version]}
    elif argv == ["--newest"]:
        pythons = dict([max(pythons.items())])
        pythons.pop(own, None)
    elif argv:
        print("usage: python scripts/pythons.py [--newest | VERSION]", file=sys.stderr)
        return 64
    else:
        pythons.pop(own, None)
    if not pythons:
        print("this machine has no other Python from 3.11 on: there is nothing else to test")
        return 0
    built = wheel()
    homes = {python: HOME / f"{major}.{minor}" for (major, minor), python in pythons.items()}
    with ThreadPoolExecutor(2) as pool:  # pip keeps one core busy
        list(pool.map(lambda python: prepare(python, homes[python], built), homes))
    failed = 0
    for python, home in homes.items():
        print(f"--> Python {home.name}: {python}", flush=True)
        began = time.monotonic()
        good = passes(home)
        failed += not good
        said = "passed" if good else "FAILED"
        print(f"<-- Python {home.name}: {said} in {time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
