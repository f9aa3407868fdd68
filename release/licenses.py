"""The licenses of what the extras install, read from the installed packages.

`python -m release.licenses` writes the table of docs/licenses.md anew.
"""

from __future__ import annotations

import re
from importlib.metadata import Distribution, PackageNotFoundError, distribution

from packaging.requirements import Requirement

from release.steps import ROOT

PAGE = ROOT / "docs" / "licenses.md"
TABLE = re.compile(r"^\| package \|.*?(?=^\n)", re.MULTILINE | re.DOTALL)
LEFT_OUT = {"all", "testing"}
"""Extras that are not listed: one has nothing of its own, and one is for authors of engines."""


def table() -> str:
    """Return a row for each package that an extra installs on this system."""
    found: dict[str, set[str]] = {}
    for extra in distribution("lockfast").metadata.get_all("Provides-Extra") or []:
        if extra not in LEFT_OUT:
            for name in _needs("lockfast", frozenset({extra}), set()):
                found.setdefault(name, set()).add(extra)
    rows = []
    for name in sorted(found):
        extras = ", ".join(f"`{each}`" for each in sorted(found[name]))
        rows.append(f"| {name} | {license_of(distribution(name))} | {extras} |")
    return "\n".join(["| package | license | extras |", "| --- | --- | --- |", *rows, ""])


def license_of(package: Distribution) -> str:
    """Return the license that a package states: its expression, else its classifiers or a word."""
    metadata = package.metadata
    stated = metadata.get_all("License-Expression")
    if stated:
        return " AND ".join(stated)
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in metadata.get_all("Classifier") or []
        if each.startswith("License :: ")
    ]
    words = [each for each in metadata.get_all("License") or [] if each and "\n" not in each]
    # With two classifiers there is a choice between licenses, of which the word may name one.
    return " or ".join(words if words and len(classifiers) < 2 else classifiers) or "not stated"  # noqa: PLR2004


def _needs(name: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> set[str]:
    """Return the names of the packages that a package with these extras needs, and theirs."""
    names: set[str] = set()
    for line in distribution(name).requires or []:
        needed = Requirement(line)
        key = (re.sub(r"[-_.]+", "-", needed.name).lower(), frozenset(needed.extras))
        wanted = needed.marker is None or any(
            needed.marker.evaluate({"extra": extra}) for extra in extras or {""}
        )
        if wanted and key not in seen:
            seen.add(key)
            try:
                names |= {key[0]} | _needs(key[0], key[1], seen)
            except PackageNotFoundError:
                message = f"{key[0]} is not installed: make pins tools"
                raise LookupError(message) from None
    return names


if __name__ == "__main__":
    PAGE.write_text(TABLE.sub(lambda _: table(), PAGE.read_text("utf-8")), "utf-8")
