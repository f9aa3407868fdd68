"""The dashboard from the wheel, in an environment of its own: alone, in FastAPI and in Django."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

import pytest

import lockfast
from tests.docs.empty import Wheelhouse
from tests.docs.page import ROOT
from tests.servers import Redis, free_port, wait_until

pytestmark = pytest.mark.timeout(400)  # the first one downloads what it installs
EXAMPLES = ROOT / "docs" / "how-to" / "examples"
PACKAGES = frozenset({"lockfast[cli,redis,web]", "fastapi", "itsdangerous", "Django"})
NAME = "invoice:42"
FIRST_VISIT = 100_000  # bytes
LINK = re.compile(r'(?:href|src)="([^"]+)"')
TOKEN = re.compile(r'name="token" value="([0-9a-f]+)"')
DJANGO = """
import django; django.setup()
from django.contrib.auth.models import User
from django.test import Client
for name, more in (
    ("admin", {"is_staff": True, "is_superuser": True}), ("guest", {"is_staff": True}), ("any", {})
):
    client = Client()
    client.force_login(User.objects.create_user(name, **more))
    print(client.cookies["sessionid"].value)
"""


class Got(NamedTuple):
    """An answer."""

    status: int
    text: str
    cookie: str
    where: str


class Site:
    """A server in the environment, and one who visits it."""

    def __init__(self, port: int) -> None:
        self._port = port

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> Got:
        """Send a request."""
        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        with closing(line):
            line.request(method, path, body or None, headers)
            answer = line.getresponse()
            cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
            text = answer.read().decode()
            return Got(answer.status, text, cookie, answer.getheader("location") or "")

    def opens(self) -> bool:
        """Tell whether it takes connections."""
        try:
            socket.create_connection(("127.0.0.1", self._port), 5).close()
        except OSError:
            return False
        return True


@pytest.fixture(scope="module")
def environment() -> Path:
    return Wheelhouse(ROOT / "build" / "wheelhouse-web", PACKAGES).environment(PACKAGES)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with Redis() as server:
        yield server.url


@pytest.fixture
def env(environment: Path, url: str) -> dict[str, str]:
    own = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    path = f"{environment / 'bin'}:/usr/local/bin:/usr/bin:/bin"
    secrets = {"SECRET_KEY": "of the tests", "PASSWORD": "of the tests"}
    return {**own, **secrets, "PATH": path, "LOCKFAST_URL": url, "PYTHONWARNINGS": "error"}


@contextmanager
def running(argv: list[str], port: int, folder: Path, env: Mapping[str, str]) -> Iterator[Site]:
    """Run a server."""
    with (folder / "log").open("w+") as log:
        argv = [str(shutil.which(argv[0], path=env["PATH"])), *argv[1:]]
        process = subprocess.Popen(argv, cwd=folder, env=env, stdout=log, stderr=log)
        try:
            site = Site(port)
            wait_until(site.opens, "it serves", 60)
            yield site
        except BaseException as error:
            error.add_note((folder / "log").read_text("utf-8"))
            raise
        finally:
            process.terminate()
            process.wait(60)
        assert "Traceback" not in (folder / "log").read_text("utf-8")


def visit(site: Site, mount: str, cookie: str) -> None:
    """Look at all pages, with what they load."""
    first = site.ask("GET", f"{mount}/", Cookie=cookie)
    assert first.status == 200, first.text
    assert NAME in first.text
    loaded = {link for link in LINK.findall(first.text) if "/static/" in link}
    assert {link.split("?")[0] for link in loaded} == {
        f"{mount}/static/lockfast.{kind}" for kind in ("css", "js", "svg")
    }
    sent = len(first.text.encode())
    for link in loaded:
        found = site.ask("GET", link, Cookie=cookie)
        assert found.status == 200
        sent += len(found.text.encode())
    assert sent < FIRST_VISIT
    for path in (f"/lock?name={NAME}", "/waits", "/health", "/table"):
        assert site.ask("GET", f"{mount}{path}", Cookie=cookie).status == 200, path
    for link in LINK.findall(first.text):
        assert link.startswith(("#", f"{mount}/")), link


def breaks(site: Site, mount: str, cookie: str, url: str) -> None:
    """Break the lock by the form."""
    with lockfast.connect(url) as client:
        (holder,) = client.lock(NAME).holders()
        form = f"{mount}/break?{urlencode({'name': NAME, 'id': holder.id})}"
        page = site.ask("GET", form, Cookie=cookie)
        token = TOKEN.search(page.text)
        assert token is not None, page.text
        sent = urlencode({"token": token[1], "reason": "a drill"})
        headers = {
            "Content-Type": "application/x-www-form-urlencoded",
            "Sec-Fetch-Site": "same-origin",
            "Cookie": f"{cookie}; {page.cookie}",
        }
        answer = site.ask("POST", form, sent, **headers)
        assert answer.status == 303, answer.text
        assert answer.where.startswith(f"{mount}/lock?")
        assert client.lock(NAME).holders() == []
        (record,) = client.breaks(NAME)[:1]
        assert (record.by, record.reason) == ("admin (dashboard)", "a drill")


def test_alone(environment: Path, url: str, env: dict[str, str], tmp_path: Path) -> None:
    assert environment.exists()
    port = free_port()
    with (
        lockfast.connect(url) as client,
        client.lock(NAME, timeout=10),
        running(["lockfast", "web", "--port", str(port)], port, tmp_path, env) as site,
    ):
        visit(site, "", "")


def test_in_fastapi(url: str, env: dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "dashboard", tmp_path, dirs_exist_ok=True)
    port = free_port()
    with (
        running(["uvicorn", "app:app", "--port", str(port)], port, tmp_path, env) as site,
        lockfast.connect(url) as client,
    ):
        assert site.ask("GET", "/locks/").status == 403
        assert site.ask("GET", "/locks/static/lockfast.css").status == 403
        lease = client.lock(NAME).acquire(timeout=10)
        cookies = {}
        for name in ("admin", "guest"):
            body = f'{{"name": "{name}", "password": "of the tests"}}'
            said = site.ask("POST", "/login", body, **{"Content-Type": "application/json"})
            assert said.status == 200, said.text
            cookies[name] = said.cookie
            visit(site, "/locks", said.cookie)
        assert site.ask("GET", f"/locks/break?name={NAME}", Cookie=cookies["guest"]).status == 403
        breaks(site, "/locks", cookies["admin"], url)
        assert lease.wait_lost(60)
        assert site.ask("GET", "/locks", Cookie=cookies["admin"]).where.endswith("/locks/")


def test_in_django(url: str, env: dict[str, str], tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "dashboard-django", tmp_path, dirs_exist_ok=True)
    shutil.copy(EXAMPLES / "django" / "manage.py", tmp_path)
    env |= {"DJANGO_SETTINGS_MODULE": "settings"}
    python = str(shutil.which("python", path=env["PATH"]))

    def run(*args: str) -> str:
        argv = [python, *args]
        return subprocess.check_output(argv, cwd=tmp_path, env=env, text=True, timeout=120)

    run("manage.py", "migrate", "--verbosity", "0")
    admin, guest, stranger = (f"sessionid={each}" for each in run("-c", DJANGO).split())
    port = free_port()
    argv = ["uvicorn", "asgi:application", "--port", str(port), "--lifespan", "off"]
    with running(argv, port, tmp_path, env) as site, lockfast.connect(url) as client:
        for cookie in ("", stranger, "sessionid=wrong"):
            assert site.ask("GET", "/locks/", Cookie=cookie).status == 403
        lease = client.lock(NAME).acquire(timeout=10)
        for cookie in (admin, guest):
            visit(site, "/locks", cookie)
        assert site.ask("GET", f"/locks/break?name={NAME}", Cookie=guest).status == 403
        breaks(site, "/locks", admin, url)
        assert lease.wait_lost(60)
        assert site.ask("GET", "/locks", Cookie=admin).where == "/locks/"
        assert site.ask("GET", "/admin/login/").status == 200  # Django has the rest
        assert site.ask("GET", "/locksmith").status == 404
