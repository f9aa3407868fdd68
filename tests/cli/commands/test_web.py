"""`web`: the dashboard alone, for browsers on this machine."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.request import HTTPCookieProcessor, ProxyHandler, Request, build_opener

import pytest

import lockfast
from tests.cli.commands.calls import Calls
from tests.cli.run.program import Program
from tests.servers import wait_until

LINK = re.compile(r"http://127\.0\.0\.1:(\d+)/([\w-]+/\?token=\S+)?")


@contextmanager
def serving(url: str, *args: str) -> Iterator[tuple[Program, int, str]]:
    """Run the command; give it, its port and the path and query of its link."""
    with Program(url, "web", "--port", "0", *args) as program:
        program.says("the dashboard of")
        found = LINK.search(program.stderr)
        assert found is not None
        yield program, int(found[1]), found[2] or ""


def get(port: int, path: str, **headers: str) -> tuple[int, str, str]:
    """Return the status, the body and the cookie of a page."""
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with closing(line):
        line.request("GET", path, headers=headers)
        answer = line.getresponse()
        cookie = (answer.getheader("set-cookie") or "").partition(";")[0]
        return answer.status, answer.read().decode(), cookie


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_shows_the_locks_until_a_signal(url: str, number: signal.Signals) -> None:
    with lockfast.connect(url) as client, client.lock("report"), serving(url) as (program, port, _):
        status, body, _ = get(port, "/")
        assert status == 200
        assert "report" in body
        assert "read-only" in body
        program.send(number)
        assert program.wait() == 0
        assert "Traceback" not in program.stderr
        assert url.partition("//")[2] in program.stderr


def test_a_page_of_another_domain_can_not_read_it(url: str) -> None:
    with serving(url) as (_, port, _):
        assert get(port, "/", Host="evil.example")[0] == 403
        assert get(port, "/", Host="localhost")[0] == 200


def test_whoever_may_break_locks_has_opened_the_link(url: str) -> None:
    with (
        lockfast.connect(url) as client,
        client.lock("report"),
        serving(url, "--allow-break") as (program, port, link),
    ):
        assert "The link works once." in program.stderr
        # A terminal of 80 columns would break a longer one, and only a part of it would be copied.
        assert len(f"http://127.0.0.1:65535/{link}") <= 80
        mount, _, token = link.rpartition("/")
        for path in ("/", "/static/lockfast.css", "/?token=wrong", "/?token=", "/table"):
            for below in ("", f"/{mount}"):
                status, body, cookie = get(port, f"{below}{path}")
                assert (status, cookie) == (403, "")
                assert "Only the browser that opens the link" in body
        assert get(port, f"/{token}")[0] == 403
        status, body, cookie = get(port, f"/{link}")
        assert status == 200
        assert re.fullmatch(rf"lockfast-{port}=\S{{40,}}", cookie)
        assert get(port, f"/{link}")[0] == 403  # it works once
        assert "report" in get(port, f"/{mount}/", Cookie=cookie)[1]
        assert get(port, "/", Cookie=cookie)[0] == 403
        assert get(port, f"/{link}", Cookie=cookie)[0] == 200  # for the same browser again
        assert get(port, f"/{mount}/", Cookie=f"{cookie}x")[0] == 403
        assert get(port, f"/{mount}/", Cookie=f"lockfast-{port}=")[0] == 403


def test_a_server_at_another_port_does_not_get_the_cookie(url: str) -> None:
    """Cookies are for all ports of a host: another user of this machine could serve at one."""
    jar = CookieJar()
    opener = build_opener(ProxyHandler({}), HTTPCookieProcessor(jar))
    with (
        serving(url, "--allow-break") as (_, port, link),
        closing(opener.open(f"http://127.0.0.1:{port}/{link}", timeout=30)),
    ):
        own = Request(f"http://127.0.0.1:{port}/{link.rpartition('/')[0]}/lock?name=x")
        jar.add_cookie_header(own)
        assert own.has_header("Cookie")
        for path in ("", "lock", "static/lockfast.css"):
            other = Request(f"http://127.0.0.1:{port + 1}/{path}")
            jar.add_cookie_header(other)
            assert not other.has_header("Cookie")


def test_the_browser_is_opened_and_ps_shows_no_secret(url: str, tmp_path: Path) -> None:
    script, told = tmp_path / "browser", tmp_path / "told"
    script.write_text(
        f'#!/bin/sh\necho "$1" >{told}.new\ncat "${{1#file://}}" >>{told}.new\necho >>{told}.new\n'
        f'stat -c %a "$(dirname "${{1#file://}}")" >>{told}.new\nmv {told}.new {told}\n'
    )
    script.chmod(0o700)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BROWSER", f"{script} %s")
        with serving(url, "--open", "--allow-break") as (program, port, link):
            wait_until(told.exists, "the browser was opened", 30)
            argument, page, mode = told.read_text().splitlines()
            assert argument.startswith("file:///")
            assert link not in argument
            assert f"url=http://127.0.0.1:{port}/{link}" in page
            assert mode == "700"
            program.send(signal.SIGTERM)
            assert program.wait() == 0
            assert not Path(argument.removeprefix("file://")).exists()


def test_it_serves_this_machine_only(call: Calls) -> None:
    for host in ("0.0.0.0", "::", "192.0.2.1"):  # noqa: S104  # what it refuses
        said = call("web", "--host", host)
        assert said.code == 78
        assert "other machines could connect" in said.err
    said = call("web", "--host", "")
    assert said.code == 78
    with socket.create_server(("127.0.0.1", 0)) as taken:
        said = call("web", "--port", str(taken.getsockname()[1]))
    assert said.code == 78
    assert "cannot be used: Address already in use" in said.err


@pytest.mark.parametrize("package", ["jinja2", "uvicorn"])
def test_without_its_extra_it_says_what_to_install(url: str, package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None\n"
        "from lockfast.cli import main; sys.exit(main())"
    )
    for args in (["web"], ["demo", "--web", "--memory"]):
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", program, *args],
            env={**os.environ, "LOCKFAST_URL": url},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 78
        assert f"the dashboard needs {package}: pip install 'lockfast[cli,web]'" in done.stderr
        assert "Traceback" not in done.stderr


def test_without_an_engine_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCKFAST_URL", raising=False)
    with Program(None, "web") as program:
        assert program.wait() == 78
        assert "no engine: write --url" in program.stderr
