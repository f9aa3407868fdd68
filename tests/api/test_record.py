"""Each change of the public API changes the record too, and is a line in the changelog."""

from __future__ import annotations

import re

import pytest

import lockfast
from tests.api.changelog import CHANGELOG, released, unnamed, without_notice
from tests.api.record import changes, explained, recorded
from tests.api.surface import numbers, surface
from tests.docs.page import ROOT


def test_the_public_api_is_the_one_that_is_recorded() -> None:
    found = changes(recorded(), surface())
    assert not found, explained(found)


def test_a_removed_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(lockfast, "RLock")
    found = changes(recorded(), surface())
    assert "-class lockfast.RLock" in found
    assert "-lockfast.RLock.holders() -> list[Holder]" in found
    assert all(line.startswith("-") for line in found)
    assert "CHANGELOG.md" in explained(found)
    assert "-class lockfast.RLock\n" in explained(found)


def test_a_renamed_method_and_a_changed_parameter_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def try_acquire(self: object, wait: float) -> None:
        """Do something else."""

    try_acquire.__module__ = "lockfast.primitives.lock"  # the reference shows only what is ours
    before = surface()
    monkeypatch.setattr(lockfast.Lock, "try_acquire", try_acquire)
    assert changes(before, surface()) == [
        "-lockfast.Lock.try_acquire() -> L | None",
        "+lockfast.Lock.try_acquire(wait: float) -> None",
    ]


def test_each_change_since_the_latest_release_is_named_in_the_changelog() -> None:
    found = unnamed(released(), recorded(), CHANGELOG.read_text("utf-8"))
    assert not found, explained(found)


def test_a_change_that_the_changelog_does_not_name_is_found() -> None:
    before = ["class lockfast.RLock", "lockfast ls --json", "lockfast.Lease.extra: int", "port 3"]
    after = ["lockfast.Lock.acquire(*, wait: float) -> L", "lockfast ls --prefix TEXT", "port 4"]
    text = "\n## [Unreleased]\n\n{}\n\n## [0.2.0] - 2026-11-20\n\n- `RLock`, `port`.\n"
    every = [*(f"-{line}" for line in before), *(f"+{line}" for line in after)]
    assert sorted(unnamed(before, after, text.format(""))) == sorted(every)
    # A word that is no code is not a name, and neither is a part of one.
    assert len(unnamed(before, after, text.format("- The port, `RLocks`, `json5`."))) == 7
    named = "- `RLock`, `Lease.extra`, `ls --json`, `lock.acquire(wait=1)`, `--prefix`, `PORT`."
    left = unnamed(before, after, text.format(named))
    assert sorted(left) == ["+port 4", "-port 3"]
    assert unnamed(before, after, text.format(f"{named}\n- The number `port` is 4.")) == []


def test_nothing_is_removed_that_no_release_has_deprecated() -> None:
    found = without_notice(released(), recorded(), CHANGELOG.read_text("utf-8"))
    assert not found, explained(found)


def test_a_removal_without_notice_is_found() -> None:
    before = [
        "class lockfast.RLock",
        "lockfast.Lock.wait(s: int) -> L",
        "lockfast ls --all",
        "port 3",
    ]
    after = ["lockfast.Lock.wait(*, s: int) -> L", "port 4"]
    text = "\n## [Unreleased]\n\n### {}\n\n- `RLock`, `--all`\n\n## [0.2.0] - 2026-11-20\n{}"
    gone = ["-class lockfast.RLock", "-lockfast ls --all"]
    for title in ("Removed", "Deprecated"):  # in the same release is too late
        assert without_notice(before, after, text.format(title, "")) == gone
    notice = "\n### Deprecated\n\n- `RLock`\n\n### Fixed\n\n- `--all`\n"
    assert without_notice(before, after, text.format("Removed", notice)) == gone[1:]
    assert without_notice(before, after, text.format("Security", "")) == []


def test_the_numbers_of_formats_are_those_of_the_page_on_compatibility() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
    rows = re.findall(r"^\| ([a-z ]+) \| (\d+) \|", page, re.MULTILINE)
    assert [" ".join(row) for row in rows] == numbers()
