"""The pages name the versions that they were checked with, which are those that the tests run."""

from __future__ import annotations

from importlib.metadata import version

import pytest

from tests.migration.page import PAGES


@pytest.mark.parametrize(
    ("page", "package", "named"),
    [
        ("redis-py.md", "redis", "redis-py "),
        ("python-redis-lock.md", "python-redis-lock", "version "),
        ("kazoo.md", "kazoo", "kazoo "),
    ],
)
def test_a_page_was_checked_with_the_version_that_is_installed(
    page: str, package: str, named: str
) -> None:
    installed = ".".join(version(package).split(".")[:2])
    text = " ".join((PAGES / page).read_text("utf-8").split())
    assert f"It was checked with {named}{installed}." in text
