"""What `make release` says of pip-audit's answer: never that all is well when nothing was asked."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from release.steps import Refused
from release.tools import verdict

OURS = {"name": "lockfast", "skip_reason": "not found on PyPI"}
CLEAN = {"name": "anyio", "version": "4.16.0", "vulns": []}


def printed(*packages: Mapping[str, object]) -> str:
    return json.dumps({"dependencies": packages, "fixes": []})


def test_packages_without_vulnerabilities_are_counted() -> None:
    assert verdict(printed(OURS, CLEAN), "") == "1 packages, no known vulnerability"


def test_a_vulnerability_ends_the_release() -> None:
    bad = {**CLEAN, "vulns": [{"id": "PYSEC-2026-1", "fix_versions": ["4.17"]}]}
    with pytest.raises(Refused, match=r"anyio 4\.16\.0: PYSEC-2026-1"):
        verdict(printed(OURS, bad), "")


def test_packages_that_the_index_does_not_know_were_not_audited() -> None:
    unknown = {"name": "anyio", "skip_reason": "Dependency not found on PyPI: anyio (4.16.0)"}
    said = verdict(printed(OURS, unknown, {**CLEAN, "name": "idna"}), "No known vulnerabilities")
    assert said.startswith("NOT AUDITED: 1 of 2 packages. Dependency not found on PyPI: anyio")


def test_a_database_that_cannot_be_reached_is_said() -> None:
    said = verdict("", "WARNING: retrying\nERROR: connection refused\n")
    assert said.startswith("NOT AUDITED: ")
    assert said.endswith(" ERROR: connection refused")
