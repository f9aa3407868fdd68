"""The page on compatibility names the versions that are tested, and those that pip installs."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.api.surface import numbers
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "compatibility.md").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
SCRIPT = (ROOT / "scripts" / "server_versions.py").read_text("utf-8")
SERVERS = re.findall(r'^    Version\("(\w+)-([\d.]+)"', SCRIPT, re.MULTILINE)
TITLES = {"postgres": "PostgreSQL", "redis": "Redis", "valkey": "Valkey", "etcd": "etcd"}
EXTRAS = {
    requirement
    for extra in PROJECT["optional-dependencies"].values()
    for requirement in extra
    if not requirement.startswith(("lockfast", "hypothesis", "pytest"))
}


@pytest.mark.parametrize(("name", "version"), SERVERS)
def test_every_version_of_a_server_that_is_tested_is_listed(name: str, version: str) -> None:
    title = TITLES.get(name, "ZooKeeper")
    (row,) = re.findall(rf"^\| {title} \|.*$", PAGE, re.MULTILINE)
    assert re.search(rf"[ ,]{re.escape(version)}[ ,]", row), row


def test_no_version_of_a_server_is_listed_that_is_not_tested() -> None:
    for name, title in {**TITLES, "zookeeper": "ZooKeeper"}.items():
        (row,) = re.findall(rf"^\| {title} \|.*$", PAGE, re.MULTILINE)
        listed = re.findall(r"[\d.]+", row.split("|")[4])
        assert listed == [version for each, version in SERVERS if each == name]


@pytest.mark.parametrize("requirement", sorted(EXTRAS))
def test_the_oldest_version_of_a_library_is_the_one_that_pip_accepts(requirement: str) -> None:
    oldest = re.findall(r">=([\w.]+)", requirement)[0]
    name = re.split(r"[\[<>=]", requirement)[0]
    words = {"redis": "redis-py", "opentelemetry-exporter-prometheus": "Prometheus exporter"}
    assert f"{words.get(name, name)} {oldest}".lower() in PAGE.lower()


def test_every_python_that_the_package_claims_is_listed_as_supported() -> None:
    claimed = re.findall(r":: Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    supported = [line for line in PAGE.splitlines() if re.match(r"\| CPython .*\| supported", line)]
    assert re.findall(r"3\.\d+", "\n".join(supported)) == claimed
    assert PROJECT["requires-python"] == f">={claimed[0]}"


@pytest.mark.parametrize("line", numbers())
def test_the_numbers_of_formats_and_of_the_port_are_those_of_this_version(line: str) -> None:
    what, _, number = line.rpartition(" ")
    assert f"\n| {what} | {number} |" in PAGE
