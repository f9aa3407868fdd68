"""The tools that look at the packages, in an environment of their own: pinned, with hashes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from release.steps import HOME, LONG, ROOT, Refused, pip, run

PINS = ROOT / "requirements-release.txt"
TOOLS = HOME / "tools"
RATING = 9
"""The least rating by pyroma, of 10. It takes one away because no author has an address."""
RATING_WITHOUT_ADDRESS = 8
"""The same in a rehearsal, in which the repository may have no address."""


def prepare() -> None:
    """Install the tools. They are not in .venv, because nothing else needs them."""
    stamp = TOOLS / "pins"
    if not (stamp.exists() and stamp.read_bytes() == PINS.read_bytes()):
        shutil.rmtree(TOOLS, ignore_errors=True)
        run(sys.executable, "-m", "venv", "--without-pip", TOOLS)
        pip(TOOLS / "bin" / "python", "install", "--require-hashes", "-r", PINS)
        shutil.copy(PINS, stamp)


def check(packages: Sequence[Path], rating: int) -> None:
    """Check the metadata, the page on the index, and the files in the wheel."""
    wheel, source = sorted(packages, key=lambda path: path.suffix != ".whl")
    print(run(TOOLS / "bin" / "twine", "check", "--strict", wheel, source), end="")
    print(run(TOOLS / "bin" / "check-wheel-contents", wheel), end="")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # pyroma starts `python -m build`
    rated = run(
        TOOLS / "bin" / "pyroma", "-n", str(rating), source, env={**os.environ, "PATH": path}
    )
    print(rated, end="")


def bill_of_materials(environment: Path, target: Path) -> None:
    """Write what `lockfast[all]` installs, with licences, as CycloneDX."""
    run(
        *(TOOLS / "bin" / "cyclonedx-py", "environment", "--output-reproducible"),
        *("--mc-type", "library", "--pyproject", ROOT / "pyproject.toml", "--of", "JSON"),
        *("-o", target, environment / "bin" / "python"),
    )
    text = target.read_text("utf-8")
    for private in (str(ROOT), str(Path.home())):
        if private in text:
            raise Refused(f"{target.name} names {private}, a folder of this machine")
    print(f"{len(json.loads(text)['components'])} packages")


def audit(environment: Path) -> None:
    """Look up known vulnerabilities. Without the database, say so and go on."""
    (packages,) = (environment / "lib").glob("python3.*/site-packages")
    argv = (TOOLS / "bin" / "pip-audit", "--path", packages, "--format", "json", "--timeout", "15")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, check=False)
    try:
        found = json.loads(done.stdout)["dependencies"]
    except ValueError:
        last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
        print(f"NOT AUDITED: the database of vulnerabilities could not be asked. {last}")
        return
    bad = [
        f"{each['name']} {each['version']}: {each['vulns']}" for each in found if each.get("vulns")
    ]
    if bad:
        raise Refused("\n".join(["pip-audit found vulnerabilities:", *bad]))
    print(f"{len(found)} packages, no known vulnerability")
