"""The client in TypeScript: its own tests, which start a Redis and replicas of this version."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page import ROOT
from tests.servers.process import program

CLIENT = ROOT / "clients" / "typescript"
LONGEST = 800  # lines of code, so that it stays an example,
WIDEST = 110  # of so many columns
pytestmark = pytest.mark.timeout(600)  # `npm ci` downloads the compiler


def npm(*words: str) -> None:
    done = subprocess.run(
        [program("npm"), *words],
        cwd=CLIENT,
        env={**os.environ, "LOCKFAST_PYTHON": sys.executable},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-20_000:]


def test_its_own_tests_pass() -> None:
    npm("ci")
    npm("test")


def test_what_it_installs_is_pinned_and_comes_from_the_public_registry() -> None:
    package = json.loads(CLIENT.joinpath("package.json").read_text("utf-8"))
    wanted = {**package["dependencies"], **package["devDependencies"]}
    assert list(package["dependencies"]) == ["ws"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted.values())
    locked = json.loads(CLIENT.joinpath("package-lock.json").read_text("utf-8"))["packages"]
    for name, version in wanted.items():
        assert locked[f"node_modules/{name}"]["version"] == version
    for path, each in locked.items():
        assert each.get("resolved", "https://registry.npmjs.org/").startswith(
            "https://registry.npmjs.org/"
        ), path
        assert not path or each["integrity"].startswith("sha512-")


def sources() -> list[Path]:
    return sorted(CLIENT.joinpath("src").glob("*.ts"))


def test_each_file_says_first_what_it_is() -> None:
    for path in sources():
        assert re.match(r"// [A-Z].*[.]\n", path.read_text("utf-8")), path.name


def test_it_stays_small() -> None:
    lines = [line.strip() for path in sources() for line in path.read_text("utf-8").splitlines()]
    code = [line for line in lines if line and not line.startswith(("//", "/*", "*"))]
    assert len(code) <= LONGEST
    for path in sources():
        assert max(map(len, path.read_text("utf-8").splitlines())) <= WIDEST, path.name
