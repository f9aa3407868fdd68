"""Make a release: `python -m release`, or `--rehearse` before the repository has an address.

It builds the packages of this commit twice, compares and checks them, installs each extra of the
wheel in an empty environment, and does there what users do first. It publishes nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path

from release import installed, packages, tools
from release.pins import digest
from release.steps import HOME, Refused, step


def main(argv: list[str]) -> int:
    """Do every step; return an exit code."""
    rehearsed = argv == ["--rehearse"]
    if argv and not rehearsed:
        print("usage: python -m release [--rehearse]", file=sys.stderr)
        return 64
    try:
        if not rehearsed:
            packages.check_address()
        packages.check_commit()
        made = _make(tools.RATING_WITHOUT_ADDRESS if rehearsed else tools.RATING)
    except Refused as why:
        print(f"no release: {why}", file=sys.stderr)
        return 1
    sums = HOME / "SHA256SUMS"
    sums.write_text("".join(f"{digest(each)}  {each.name}\n" for each in made), "utf-8")
    print("==> artefacts" + (", of a rehearsal: do not publish them" if rehearsed else ""))
    for each in made:
        print(f"{digest(each)}  {each.stat().st_size:>9,}  {each.relative_to(Path.cwd())}")
    return 0


def _make(rating: int) -> list[Path]:
    HOME.mkdir(parents=True, exist_ok=True)
    with step("the packages, built twice and compared"):
        built = packages.build()
    with step("checks of the packages"):
        tools.prepare()
        tools.check(built, rating)
    (wheel,) = (each for each in built if each.suffix == ".whl")
    with step("each extra in an empty environment"):
        environments = installed.environments(wheel)
        installed.use(environments)
    with step("the first steps of a user"):
        installed.first_steps(environments[""], environments["cli"])
    with step("the contract on SQLite, from the wheel"):
        installed.contract(environments["testing"])
    version = wheel.name.split("-")[1]
    materials = HOME / f"lockfast-{version}.cdx.json"
    with step("the bill of materials of lockfast[all]"):
        tools.bill_of_materials(environments["all"], version, materials)
    with step("known vulnerabilities in lockfast[all]"):
        tools.audit(environments["all"])
    return [*built, materials]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
