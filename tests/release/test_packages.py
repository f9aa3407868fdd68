"""When `make release` refuses, it says why, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from release import packages
from release.steps import Refused

HOOK = '[tool.hatch.metadata.hooks.custom]\nrepository = "{}"\n'


def test_without_an_address_of_the_repository_there_is_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "ROOT", tmp_path)
    (tmp_path / "pyproject.toml").write_text(HOOK.format(""), "utf-8")
    with pytest.raises(Refused, match=r"(?s)no address yet.*pyproject\.toml:\n\n    \[tool\.hatch"):
        packages.check_address()
    (tmp_path / "pyproject.toml").write_text(HOOK.format("https://code.example/x"), "utf-8")
    packages.check_address()


def test_two_builds_that_differ_are_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def built(folder: Path, umask: int) -> Path:
        folder.mkdir(parents=True)
        (folder / "lockfast-1-py3-none-any.whl").write_text(f"{umask if differ else 0}", "utf-8")
        return folder

    monkeypatch.setattr(packages, "HOME", tmp_path / "release")
    monkeypatch.setattr(packages, "DIST", tmp_path / "dist")
    monkeypatch.setattr(packages, "_built", built)
    differ = True
    with pytest.raises(Refused, match=r"two builds of one commit differ: .*lockfast-1"):
        packages.build()
    assert not (tmp_path / "dist").exists()
    differ = False
    assert [each.name for each in packages.build()] == ["lockfast-1-py3-none-any.whl"]
