"""What the registry shows about the package is true."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

import lockfast.aio
from lockfast.engines.redis.transport import RIGHTS
from lockfast.engines.redlock.messages import RIGHTS as REDLOCK_RIGHTS
from tests.docs.rights import documented_acl

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
REFERENCE = "".join(page.read_text("utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))


def test_the_extra_all_has_every_extra_that_users_need() -> None:
    named = {name for line in EXTRAS["all"] for name in re.findall(r"[\w-]+", line)} - {"lockfast"}
    assert named == set(EXTRAS) - {"all", "testing"}


@pytest.mark.parametrize("page", ["engines/redis.md", "engines/redlock.md", "engines/postgres.md"])
def test_a_page_that_search_engines_lead_to_says_how_to_install(page: str) -> None:
    assert "pip install 'lockfast[" in (ROOT / "docs" / page).read_text("utf-8")[:1000]


def test_the_landing_page_says_how_to_install_and_leads_to_the_quickstart() -> None:
    page = (ROOT / "docs" / "index.md").read_text("utf-8")
    first = page[: page.index("## ")]
    assert "$ pip install lockfast\n" in first
    assert "(quickstart.md)" in first


@pytest.mark.parametrize(
    "name",
    [
        "lockfast.telemetry.instrument",
        "lockfast.engines.postgres.install",
        "lockfast.engines.redlock.install",
        "lockfast.integrations.celery.database.LeadingDatabaseScheduler",
        *(
            f"lockfast.integrations.{module}"
            for module in ("alembic", "apscheduler", "celery", "django", "starlette")
        ),
    ],
)
def test_the_reference_lists_what_users_import(name: str) -> None:
    assert f":: {name}" in REFERENCE


@pytest.mark.parametrize("module", [lockfast, lockfast.aio], ids=["threads", "asyncio"])
def test_the_reference_lists_every_public_name(module: ModuleType) -> None:
    whole = {"lockfast.errors", "lockfast.guarantees"}  # pages that list all members of a module
    missing = [
        name
        for name in module.__all__
        if f":: {module.__name__}.{name}\n" not in REFERENCE
        and getattr(module, name).__module__ not in whole
    ]
    assert not missing


def test_the_version_of_the_package_is_the_one_it_tells() -> None:
    assert version("lockfast") == lockfast.__version__


def test_the_rights_in_an_error_of_redis_are_those_of_its_page() -> None:
    page = documented_acl(ROOT / "docs" / "engines" / "redis.md").split()
    assert sorted(RIGHTS.split()) == sorted(word for word in page if word[0] in "~&+")


def test_the_rights_in_an_error_of_redlock_are_those_of_its_page() -> None:
    page = documented_acl(ROOT / "docs" / "engines" / "redlock.md").split()
    assert sorted(REDLOCK_RIGHTS.split()) == sorted(word for word in page if word[0] in "~&+")
