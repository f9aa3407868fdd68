"""Every Python snippet of the README and the documentation runs, as a reader would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.docs.page import complaints
from tests.servers import EtcdCluster, MariaDB, ObjectStore, Postgres, Redis, Replica, ZooKeeper
from tests.servers.redlock import url_of

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def login(server: MariaDB) -> str:
    """Return the arguments of PyMySQL for a server with a database `app`."""
    server.command("CREATE DATABASE app")
    return f'host="127.0.0.1", port={server.port}, user="root", password="tests"'


def address(server: MariaDB) -> str:
    """Return the part of a URL for a server with a database `app`."""
    server.command("CREATE DATABASE app")
    return f"root:tests@127.0.0.1:{server.port}/app"


def service(stack: ExitStack) -> str:
    """Return the URL of a replica of the service, in front of a Redis server."""
    return stack.enter_context(Replica(stack.enter_context(Redis()).url)).url


PLACES: dict[str, Callable[[ExitStack], str]] = {
    "redis://localhost:6379": lambda stack: stack.enter_context(Redis()).url,
    "lockfast://127.0.0.1:7420": service,
    "http://localhost:9000": lambda stack: stack.enter_context(ObjectStore()).url,
    "redlock://h1,h2,h3,h4,h5": lambda stack: url_of(
        *(stack.enter_context(Redis()) for _ in range(5))
    ),
    "localhost:2181": lambda stack: stack.enter_context(ZooKeeper()).address,
    "etcd://localhost:2379": lambda stack: stack.enter_context(EtcdCluster(1)).url,
    "mysql://root:secret@localhost/lockfast": lambda stack: stack.enter_context(MariaDB()).url,
    'host="localhost", port=3306, user="root", password="secret"': lambda stack: login(
        stack.enter_context(MariaDB())
    ),
    "root:secret@localhost:3306/app": lambda stack: address(stack.enter_context(MariaDB())),
    "/tmp/": lambda stack: f"{stack.enter_context(TemporaryDirectory())}/",  # noqa: S108  # the pages'
}
"""What the pages write, and how to start what is meant."""
DATABASE = "://localhost/app"
"""PostgreSQL, also by SQLAlchemy. It stays as it is: libpq takes the port and the user from the
environment."""
LOGIN = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
}


def snippets(page: Path) -> str:
    """Join a page's snippets into one program: a page is read from top to bottom."""
    return "\n".join(FENCE.findall(page.read_text("utf-8")))


def placed(program: str, stack: ExitStack) -> str:
    """Put real servers in the places that a program names."""
    for place, start in PLACES.items():
        if place in program:
            program = program.replace(place, start(stack))
    return program


@pytest.mark.parametrize(
    "page", [p for p in PAGES if snippets(p)], ids=lambda p: str(p.relative_to(ROOT))
)
def test_the_snippets_of_a_page_run(page: Path, tmp_path: Path) -> None:
    env = {**os.environ, **LOGIN}
    with ExitStack() as stack:
        program = placed(snippets(page), stack)
        if DATABASE in program:
            postgres = stack.enter_context(Postgres())
            postgres.command("CREATE DATABASE app")
            env |= {"PGPORT": str(postgres.port), "PGUSER": "postgres"}
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert not complaints(done.stderr), done.stderr


def test_the_readme_shows_a_stale_holder_that_is_detected_and_rejected(tmp_path: Path) -> None:
    with ExitStack() as stack:
        program = placed(snippets(ROOT / "README.md"), stack)
        said = subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
    assert "this program has the lock" in said
    assert re.search("detected: .*is not held: it expired in this process", said), said
    assert "rejected: the write to 'invoice:43'" in said


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert (page.parent / link).exists(), f"{page.name} links to {link}"
