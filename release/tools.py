"""The tools that look at the packages, in an environment of their own: pinned, with hashes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from release.pins import constraints
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
    # pyroma builds once more, in an environment of its own, with these versions. That build is not
    # kept: the packages were built by what is installed here, which came with hashes.
    constrained = {**os.environ, "PIP_CONSTRAINT": str(constraints(HOME / "constraints.txt"))}
    rated = run(TOOLS / "bin" / "pyroma", "-n", str(rating), source, env=constrained)
    print(rated, end="")


def bill_of_materials(environment: Path, version: str, target: Path) -> None:
    """Write what `lockfast[all]` installs, with licenses, as CycloneDX."""
    with tempfile.TemporaryDirectory() as place:
        # Ours leaves the version open until it is built.
        about = Path(place) / "pyproject.toml"
        about.write_text(
            f'[project]\nname = "lockfast"\nversion = "{version}"\nlicense = "Apache-2.0"\n',
            "utf-8",
        )
        run(
            *(TOOLS / "bin" / "cyclonedx-py", "environment", "--output-reproducible"),
            *("--mc-type", "library", "--pyproject", about, "--of", "JSON", "-o", target),
            environment / "bin" / "python",
        )
    text = target.read_text("utf-8")
    for private in (str(ROOT), str(Path.home()), place):
        if private in text:
            raise Refused(f"{target.name} names {private}, a folder of this machine")
    print(f"lockfast {version} and {len(json.loads(text)['components'])} packages")


def audit(environment: Path) -> None:
    """Look up known vulnerabilities. Without the database, say so and go on."""
    (packages,) = (environment / "lib").glob("python3.*/site-packages")
    argv = (TOOLS / "bin" / "pip-audit", "--path", packages, "--format", "json", "--timeout", "15")
    done = subprocess.run(argv, capture_output=True, text=True, timeout=LONG, check=False)
    print(verdict(done.stdout, done.stderr))


def verdict(printed: str, errors: str) -> str:
    """Return what pip-audit found out, or raise `Refused` if a package has a vulnerability.

    It ends with success, and says that nothing is known, if the index has no data of a package.
    """
    try:
        found = json.loads(printed)["dependencies"]
    except ValueError:
        last = (errors.strip() or "pip-audit said nothing").splitlines()[-1]
        return f"NOT AUDITED: the database of vulnerabilities could not be asked. {last}"
    bad = [
        f"{each['name']} {each['version']}: {one['id']}"
        for each in found
        for one in each.get("vulns", ())
    ]
    if bad:
        raise Refused("\n".join(["pip-audit found vulnerabilities:", *bad]))
    others = [each for each in found if each["name"] != "lockfast"]
    skipped = [each["skip_reason"] for each in others if "skip_reason" in each]
    if skipped:
        return f"NOT AUDITED: {len(skipped)} of {len(others)} packages. {skipped[0]}"
    return f"{len(others)} packages, no known vulnerability"
