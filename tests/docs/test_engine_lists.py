"""Every engine is in every list of engines: a new one that is missing somewhere fails here."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from benchmarks import against
from lockfast.engines import ENGINES

ROOT = Path(__file__).parents[2]
SERVICE = "remote"
"""Not an engine that keeps locks, but the way to one: the client of the service. It promises what
the engine behind the service promises, so it is on no page that compares engines. Its own page is
held to `test_service_page.py`."""
MODULES = sorted(set(ENGINES.values()) - {SERVICE})
SHARED = [module for module in MODULES if module != "memory"]
"""Engines that several processes share. The memory engine stores and measures nothing."""
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
WITHOUT_DRIVER = {"memory", "sqlite"}
"""Engines that need nothing but Python, and so no extra."""


def text(path: str) -> str:
    return (ROOT / path).read_text("utf-8")


def title(module: str) -> str:
    """Return the first word of the title of an engine's page, as the lists write it."""
    return text(f"docs/engines/{module}.md").split("\n")[0].split()[1].strip(":").lower()


def listed(path: str) -> set[str]:
    """Return the first word of each row of all tables of a page."""
    rows = [line for line in text(path).split("\n") if line.startswith("| ")]
    return {row.split()[1].strip(",").lower() for row in rows}


@pytest.mark.parametrize("module", MODULES)
def test_an_engine_has_a_page_that_the_lists_lead_to(module: str) -> None:
    index = text("docs/engines/index.md")
    assert f"({module}.md)" in index
    assert f"\n{module}\n" in index.partition("{toctree}")[2]
    assert f"(docs/engines/{module}.md)" in text("README.md")
    assert title(module) in listed("docs/reference/engines.md")


@pytest.mark.parametrize("module", SHARED)
def test_an_engine_is_on_the_pages_that_compare_engines(module: str) -> None:
    assert title(module) in listed("docs/how-to/doctor.md")
    assert title(module) in listed("docs/explanation/formats.md")
    assert title(module) in text("docs/explanation/choosing.md").lower()


@pytest.mark.parametrize("module", SHARED)
@pytest.mark.parametrize(
    "page",
    [
        "SECURITY.md",
        "docs/compatibility.md",
        "docs/explanation/figures.md",
        "docs/robustness/index.md",
        "docs/troubleshooting.md",
    ],
)
def test_an_engine_is_on_the_pages_about_all_engines(module: str, page: str) -> None:
    assert title(module) in text(page).lower()


@pytest.mark.parametrize("module", SHARED)
def test_an_engine_is_found_by_its_name(module: str) -> None:
    assert title(module) in PROJECT["project"]["keywords"]


@pytest.mark.parametrize("module", MODULES)
def test_an_engine_is_held_to_the_contract(module: str) -> None:
    assert (ROOT / "tests" / "contract" / f"test_{module}.py").exists()


@pytest.mark.parametrize("module", [*MODULES, SERVICE])
def test_an_engine_is_kept_apart_from_the_others(module: str) -> None:
    contracts = PROJECT["tool"]["importlinter"]["contracts"]
    (apart,) = [each for each in contracts if each["id"] == "engines-apart"]
    assert f"lockfast.engines.{module}" in apart["modules"]


@pytest.mark.parametrize("module", [*MODULES, SERVICE])
def test_the_extra_of_an_engine_has_its_name(module: str) -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    assert (module in extras) == (module not in WITHOUT_DRIVER)


@pytest.mark.parametrize("module", SHARED)
def test_an_engine_is_measured(module: str) -> None:
    assert module in against.ENGINES
