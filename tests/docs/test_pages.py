"""The README, the quickstart, the how-to and the migration pages, as a new user meets them.

Each page is followed in an empty environment that has our wheel and what the page's own lines
install, and nothing else.
"""

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.docs.empty import Wheelhouse
from tests.docs.page import ROOT, Page, read
from tests.docs.reader import Reader
from tests.servers import MariaDB, Postgres, Redis, ZooKeeper, free_port

FOLDERS = [ROOT / "docs" / "how-to", ROOT / "docs" / "migrate"]
SERVICE = ROOT / "docs" / "service" / "index.md"
SECURITY = SERVICE.with_name("security.md")
HTTP = SERVICE.with_name("http.md")
SIGNED = SERVICE.with_name("signed-tokens.md")
DASHBOARD = SERVICE.with_name("dashboard.md")
PAGES = [
    read(path)
    for path in (
        ROOT / "README.md",
        ROOT / "docs" / "quickstart.md",
        SERVICE,
        SECURITY,
        HTTP,
        SIGNED,
        DASHBOARD,
        *(each for folder in FOLDERS for each in sorted(folder.glob("*.md"))),
    )
    if path.name != "index.md" or path == SERVICE
]
# The how-to and migration pages take four minutes of a processor: `make pages` follows them all.
FOLLOWED = [
    pytest.param(page, marks=[pytest.mark.wide] if page.path.parent in FOLDERS else [])
    for page in PAGES
]
pytestmark = pytest.mark.timeout(400)  # the first one downloads everything that pages install
DATABASE = "PostgreSQL database `app`"
"""A page that needs one says so; libpq takes its port and user from the environment."""


def name(page: Page) -> str:
    return str(page.path.relative_to(ROOT))


@pytest.fixture(scope="module")
def wheelhouse() -> Wheelhouse:
    packages = {package for page in PAGES for package in page.packages}
    return Wheelhouse(ROOT / "build" / "wheelhouse", packages)


@pytest.mark.parametrize("page", FOLLOWED, ids=name)
def test_a_page_works_to_the_letter_with_only_what_it_installs(
    page: Page, wheelhouse: Wheelhouse, tmp_path: Path
) -> None:
    text = page.path.read_text("utf-8")
    with ExitStack() as stack:
        env: dict[str, str] = {}
        server = stack.enter_context(Redis())
        swaps = {
            "6379 web": "6379 web --port 0",
            # Its default port, which the page does not write, may be in use here.
            "lockfast serve redis": "lockfast serve --port 7420 redis",
            "7420": str(free_port()),
            "7421": str(free_port()),
            "6379": str(server.port),
            "8000": str(free_port()),
            "8081": str(free_port()),
            "lockfast demo": "lockfast demo --fast",
            "--web --seconds 60": "--web --seconds 3",
            "/tmp/": f"{tmp_path}/",  # noqa: S108  # the pages'
        }
        if "2181" in text:
            swaps["2181"] = str(stack.enter_context(ZooKeeper()).port)
        if "3306" in text:
            mariadb = stack.enter_context(MariaDB())
            mariadb.command("CREATE DATABASE app")
            swaps |= {"3306": str(mariadb.port), "secret": "tests"}
        if DATABASE in text:
            postgres = stack.enter_context(Postgres())
            postgres.command("CREATE DATABASE app")
            env |= {"PGPORT": str(postgres.port), "PGUSER": "postgres"}
        reader = Reader(tmp_path, wheelhouse.environment(page.packages), swaps, env)
        reader.follow(page)


def test_the_quickstart_needs_no_server_and_no_extra_before_its_part_on_redis(
    wheelhouse: Wheelhouse, tmp_path: Path
) -> None:
    whole = PAGES[1].path.read_text("utf-8")
    part, _, rest = whole.partition("## The same with Redis")
    assert rest
    (tmp_path / "quickstart.md").write_text(part, "utf-8")
    page = read(tmp_path / "quickstart.md")
    assert page.packages == {"lockfast"}
    Reader(tmp_path, wheelhouse.environment(page.packages), {}, {}).follow(page)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_begins_with_its_install_line(page: Page) -> None:
    text = page.path.read_text("utf-8")
    assert page.packages, "no line of it installs anything"
    first = min(text.find(fence) for fence in ("```python", "```console", "```{") if fence in text)
    assert text[first:].startswith("```console\n$ pip install "), text[first : first + 80]


def test_the_readme_without_its_packages_fails_and_does_not_hang(
    wheelhouse: Wheelhouse, tmp_path: Path
) -> None:
    # It once stopped its own process, and left it to a child to resume it. The child failed.
    environment = wheelhouse.environment(frozenset({"lockfast[redis]"}))
    with Redis() as server:
        program = PAGES[0].snippets.replace("6379", str(server.port))
        done = subprocess.run(
            [environment / "bin" / "python", "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert "No module named 'redis'" in done.stderr
