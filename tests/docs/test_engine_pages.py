"""The page of each engine, as a new user meets it: what it installs, its example, its options."""

from __future__ import annotations

import os
import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from lockfast.engines.etcd.url import OPTIONS as ETCD
from lockfast.engines.mysql.url import OPTIONS as MYSQL
from lockfast.engines.postgres import OURS
from lockfast.engines.postgres.url import LIBPQ
from lockfast.engines.redis.url import OPTIONS as REDIS
from lockfast.engines.redlock.url import KNOWN as REDLOCK
from lockfast.engines.zookeeper.url import OPTIONS as ZOOKEEPER
from tests.docs.empty import Wheelhouse
from tests.docs.page import ROOT, Page, complaints, read
from tests.docs.test_engine_lists import MODULES
from tests.docs.test_snippets import DATABASE, placed
from tests.servers import Postgres

PAGES = {name: read(ROOT / "docs" / "engines" / f"{name}.md") for name in MODULES}
OPTIONS: dict[str, tuple[str, ...]] = {
    "etcd": ETCD,
    "memory": (),
    "mysql": MYSQL,
    "postgres": (*LIBPQ, *OURS),
    "redis": REDIS,
    "redlock": REDLOCK,
    "sqlite": ("token_base",),
    "zookeeper": ZOOKEEPER,
}
ROW = re.compile(r"^\| option \|.*\n\| ---.*\n((?:\|.*\n)+)", re.MULTILINE)
pytestmark = pytest.mark.timeout(400)  # the first one downloads everything that pages install


def text(name: str) -> str:
    return PAGES[name].path.read_text("utf-8")


def documented(name: str) -> set[str]:
    """Return the options in the first column of a page's table. `x…` is all that begin with x."""
    found = ROW.search(text(name))
    cells = [row.split(" | ")[0] for row in found[1].splitlines()] if found else []
    said = {word for cell in cells for word in re.findall(r"`([^`]+)`", cell)}
    whole = {
        each
        for word in said
        if word.endswith("…")
        for each in OPTIONS[name]
        if each.startswith(word.removesuffix("…"))
    }
    return {word for word in said if not word.endswith("…")} | whole


@pytest.mark.parametrize("name", MODULES)
def test_the_page_of_an_engine_describes_each_option_of_its_url(name: str) -> None:
    assert documented(name) == set(OPTIONS[name])


@pytest.mark.parametrize("name", MODULES)
def test_the_page_of_an_engine_begins_with_its_install_line_and_an_example(name: str) -> None:
    blocks = re.findall(r"^```(\w+)\n(.*)$", text(name), re.MULTILINE)
    (first, install), (second, _), *_ = (block for block in blocks if block[0])
    assert first == "console"
    assert install.startswith("$ pip install ")
    assert second == "python"
    assert text(name).index("```python") < 1500, "the example is not on the first screen"


@pytest.fixture(scope="module")
def wheelhouse() -> Wheelhouse:
    packages = {package for page in PAGES.values() for package in page.packages}
    return Wheelhouse(ROOT / "build" / "wheelhouse-engines", packages)


@pytest.mark.parametrize("name", MODULES)
def test_the_example_of_an_engine_works_with_only_what_its_page_installs(
    name: str, wheelhouse: Wheelhouse, tmp_path: Path
) -> None:
    page: Page = PAGES[name]
    env = {key: value for key, value in os.environ.items() if key in {"LANG", "PATH", "TMPDIR"}}
    with ExitStack() as stack:
        program = placed(page.snippets, stack)
        if DATABASE in program:
            postgres = stack.enter_context(Postgres())
            postgres.command("CREATE DATABASE app")
            env |= {"PGPORT": str(postgres.port), "PGUSER": "postgres"}
        python = wheelhouse.environment(page.packages) / "bin" / "python"
        done = subprocess.run(
            [python, "-W", "error", "-c", program],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "locked, with fencing token" in done.stdout
    assert not complaints(done.stderr), done.stderr
