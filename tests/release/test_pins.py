"""Every package that developers install is pinned, by version and by hash."""

from __future__ import annotations

import hashlib
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release import pins
from release.steps import Refused
from tests.docs.page import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
GROUPS: dict[str, list[str | dict[str, str]]] = PROJECT["dependency-groups"]
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
ENTRY = re.compile(r"(\S+)==(\S+)((?: \\\n {4}--hash=sha256:[0-9a-f]{64})+)\n")


def pinned(name: str) -> dict[str, str]:
    """Return the versions of a file that has nothing but versions, hashes and comments."""
    text = (ROOT / f"requirements-{name}.txt").read_text("utf-8")
    assert re.sub(r"^#.*\n", "", ENTRY.sub("", text), flags=re.MULTILINE) == "", name
    return {canonicalize_name(found[1]): found[2] for found in ENTRY.finditer(text)}


def wanted(group: str) -> list[Requirement]:
    """Return the requirements of a group, and those of the extras that are installed with it."""
    every = PROJECT["project"]["optional-dependencies"]
    (quick,) = re.findall(r"^QUICK_EXTRAS := (.*)", MAKEFILE, re.MULTILINE)
    extras = {"dev": list(every), "quick": quick.split(), "release": []}[group]
    found = [line for each in GROUPS[group] for line in ([each] if isinstance(each, str) else [])]
    for extra in extras:
        found += every[extra]
    return [each for each in map(Requirement, found) if each.name != "lockfast"]


@pytest.mark.parametrize("group", GROUPS)
def test_each_requirement_is_pinned_to_a_version_that_it_allows(group: str) -> None:
    versions = pinned(group)
    for each in wanted(group):
        assert versions[canonicalize_name(each.name)] in each.specifier, f"{each}: make pins"


def test_a_package_has_one_version() -> None:
    dev = pinned("dev")
    assert pinned("quick").items() <= dev.items()
    assert {"include-group": "quick"} in GROUPS["dev"]


def test_make_installs_nothing_without_a_hash_but_lockfast() -> None:
    install = re.findall(r"pip install (?!uv)(.*)", MAKEFILE)
    assert install == [
        "-q --require-hashes --only-binary :all:",
        "-q --no-deps --no-build-isolation -e .",
    ]


def test_what_pip_has_downloaded_is_compared_with_the_hashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "PINS", tmp_path / "requirements-dev.txt")
    good, bad = tmp_path / "good-1.whl", tmp_path / "bad-1.whl"
    good.write_bytes(b"as it was")
    bad.write_bytes(b"changed")
    known = hashlib.sha256(b"as it was").hexdigest()
    pins.PINS.write_text(f"good==1 \\\n    --hash=sha256:{known}\nbad==1.0 \\\n", "utf-8")
    pins.check([good])
    with pytest.raises(Refused, match=r"not as requirements-dev\.txt has them: bad-1\.whl$"):
        pins.check([good, bad])
    written = pins.constraints(tmp_path / "constraints.txt")
    assert written.read_text("utf-8") == "good==1\nbad==1.0\n"
