"""The files that a repository's host reads: nobody runs them here, so what they name is checked."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from release.installed import PROGRAMS, extras
from tests.docs.page import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
FORMS = sorted((GITHUB / "ISSUE_TEMPLATE").glob("*.yml"))
TARGETS = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
PINNED = re.compile(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


def loaded(path: Path) -> dict[Any, Any]:
    found = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def jobs(path: Path) -> dict[str, Any]:
    found = loaded(path)["jobs"]
    assert isinstance(found, dict)
    return found


def commands(path: Path) -> list[str]:
    steps = [step for job in jobs(path).values() for step in job["steps"]]
    return [line for step in steps for line in step.get("run", "").splitlines()]


def named(path: Path) -> str:
    return path.name


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_a_workflow_runs_what_exists(path: Path) -> None:
    for command in commands(path):
        program, _, rest = command.partition(" ")
        if program == "make":
            assert rest.split()[0] in TARGETS, command
        elif program.startswith("."):
            assert program == ".venv/bin/python" or os.access(ROOT / program, os.X_OK), command


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_a_workflow_has_the_least_rights(path: Path) -> None:
    assert loaded(path)["permissions"] == {}
    for name, job in jobs(path).items():
        write = {right for right, level in job["permissions"].items() if level == "write"}
        fetches = [step for step in job["steps"] if "checkout@" in step.get("uses", "")]
        # Where the code of the repository runs, nothing can be written.
        assert not write or not fetches, name
        assert all(step["with"]["persist-credentials"] is False for step in fetches)
        assert "timeout-minutes" in job, name


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_each_action_is_pinned_to_a_commit_with_its_version(path: Path) -> None:
    used = re.findall(r"uses: (.*)", path.read_text("utf-8"))
    assert used
    assert [each for each in used if not PINNED.fullmatch(each)] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=named)
def test_no_value_of_an_event_is_pasted_into_a_command(path: Path) -> None:
    assert not [command for command in commands(path) if "${{" in command]


def test_every_python_that_is_claimed_is_in_the_matrix() -> None:
    matrix = jobs(GITHUB / "workflows" / "ci.yml")["pythons"]["strategy"]["matrix"]["python"]
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    claimed = re.findall(r":: Python :: (3\.\d+)", "\n".join(pyproject["project"]["classifiers"]))
    assert set(claimed) <= set(matrix)


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.*)", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=named)
def test_each_link_of_a_file_at_the_root_leads_to_a_file_and_a_title(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, title = target.partition("#")
        found = ROOT / name if name else page
        assert found.exists(), target
        assert not title or title in anchors(found), target


@pytest.mark.parametrize("path", [each for each in FORMS if each.stem != "config"], ids=named)
def test_a_form_is_complete(path: Path) -> None:
    form = loaded(path)
    assert {"name", "description", "body"} <= form.keys()
    asked = [each for each in form["body"] if each["type"] != "markdown"]
    assert len({each["id"] for each in asked}) == len(asked) > 1
    assert all(each["attributes"]["label"] for each in asked)


def test_dependabot_looks_at_folders_that_have_what_it_renews() -> None:
    kinds = {
        "docker": "Containerfile",
        "github-actions": ".github/workflows",
        "npm": "package-lock.json",
        "pip": "requirements-dev.txt",
    }
    updates = loaded(GITHUB / "dependabot.yml")["updates"]
    for update in updates:
        folder = ROOT / update["directory"].lstrip("/")
        assert (folder / kinds[update["package-ecosystem"]]).exists(), update


def test_what_needs_a_review_by_certain_people_exists() -> None:
    lines = (GITHUB / "CODEOWNERS").read_text("utf-8").splitlines()
    paths = [found[1] for line in lines if (found := re.match(r"#?/(\S*)", line))]
    assert len(paths) == len(set(paths)) > 10
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_a_release_tries_every_extra() -> None:
    assert set(extras()) - {"all"} == PROGRAMS.keys() - {""}
