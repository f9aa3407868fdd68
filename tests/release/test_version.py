"""The version is written in one place, and the files for users agree with it."""

from __future__ import annotations

import re
from datetime import date

import lockfast
from tests.api.changelog import CHANGELOG
from tests.docs.page import ROOT

SECTIONS = re.findall(r"^## (.*)", CHANGELOG.read_text("utf-8"), re.MULTILINE)
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_changelog_begins_with_what_is_unreleased_and_this_version() -> None:
    first, second = SECTIONS[:2]
    assert first == "[Unreleased]"
    found = re.fullmatch(r"\[(.+)\] - (\d{4}-\d\d-\d\d)", second)
    assert found is not None
    assert found[1] == lockfast.__version__
    date.fromisoformat(found[2])


def test_entries_stand_under_the_kinds_that_readers_look_for() -> None:
    titles = re.findall(r"^### (.*)", CHANGELOG.read_text("utf-8"), re.MULTILINE)
    assert set(titles) <= KINDS


def test_this_version_gets_fixes() -> None:
    minor = ".".join(lockfast.__version__.split(".")[:2])
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    versions = text.partition("## Supported versions")[2].partition("\n## ")[0]
    assert re.search(rf"^\| {re.escape(minor)}\b.*\| yes \|$", versions, re.MULTILINE)
