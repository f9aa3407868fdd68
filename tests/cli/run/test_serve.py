"""`lockfast serve`: what it says, whom it serves, and which mistakes it reports."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

import lockfast
from tests.cli.run.program import ROOT, Program, run
from tests.servers import Redis, free_port, wait_until
from tests.servers.certificates import Certificates

NOWHERE = "redis://127.0.0.1:1"


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@contextmanager
def served(url: str, *args: str, port: int, host: str = "127.0.0.1") -> Iterator[Program]:
    """Run it until it accepts connections."""
    with Program(url, "serve", *args, "--port", str(port)) as program:
        # It says so when it listens already.
        wait_until(lambda: bool(program.stderr) or program.process.poll() is not None, "it serves")
        assert accepts(host, port)
        assert program.process.poll() is None, program.stderr
        yield program


def accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
def test_a_client_gets_its_locks_through_the_service_until_a_signal_ends_it(
    server: Redis, ending: signal.Signals
) -> None:
    port = free_port()
    with served(server.url, port=port) as program:
        with (
            lockfast.connect(f"lockfast://127.0.0.1:{port}") as client,
            lockfast.connect(server.url) as direct,
            client.lock("x", timeout=10) as lease,
        ):
            (holder,) = direct.lock("x").holders()
            assert holder.token == lease.token
            assert direct.lock("x").try_acquire() is None
        program.send(ending)
        assert program.wait() == 0
        assert program.stdout == ""
        assert program.stderr.count("\n") == 1, program.stderr


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_it_says_what_it_serves_where_for_whom_and_how_to_connect(host: str) -> None:
    port = free_port()
    where = f"[::1]:{port}" if host == "::1" else f"{host}:{port}"
    url = "redis://user:hunter2@127.0.0.1:1"
    with served(url, "--host", host, port=port, host=host) as program:
        assert program.stderr == (
            f"lockfast: serving redis://127.0.0.1:1 at {where}, to every program on this machine. "
            f"Connect with LOCKFAST_URL=lockfast://{where}\n"
        )


def test_it_says_where_the_dashboard_is(tmp_path: Path) -> None:
    files, port = Certificates(tmp_path), free_port()
    with served(NOWHERE, "--web", port=port) as program:
        assert program.stderr.endswith(f". The dashboard is at http://127.0.0.1:{port}/web/\n")
    tls = ("--ssl-certfile", str(files.certificate_path), "--ssl-keyfile", str(files.key_path))
    with served(NOWHERE, "--web", *tls, port=port) as program:
        assert program.stderr.endswith(f". The dashboard is at https://127.0.0.1:{port}/web/\n")


def test_its_warnings_are_shown() -> None:
    port = free_port()
    with served(NOWHERE, port=port) as program:
        with pytest.raises(HTTPError) as caught:
            urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10)
        caught.value.close()
        assert caught.value.code == 503
        program.says("lockfast: not ready, because the engine does not answer: ")
        assert program.stderr.count("\n") == 2


def test_the_url_may_follow_the_command(server: Redis) -> None:
    port = free_port()
    argv = [sys.executable, "-m", "lockfast.cli", "serve", server.url, "--port", str(port)]
    # An argument wins over the environment.
    env = {**os.environ, "LOCKFAST_URL": NOWHERE}
    with subprocess.Popen(argv, cwd=ROOT, env=env, stderr=subprocess.PIPE) as process:
        try:
            wait_until(lambda: accepts("127.0.0.1", port), "it serves")
            with lockfast.connect(f"lockfast://127.0.0.1:{port}") as client:
                assert client.lock("x").try_acquire() is not None
        finally:
            process.terminate()
            process.communicate(timeout=30)


def test_a_url_before_the_command_and_one_behind_it_are_refused() -> None:
    code, _, said = run(NOWHERE, "serve", NOWHERE)
    assert code == 64
    assert "write the URL before the command or behind it, not both" in said


def test_an_address_that_other_machines_can_reach_is_refused() -> None:
    for host in ("0.0.0.0", "192.0.2.1", "::"):  # noqa: S104  # it is refused
        code, out, said = run(NOWHERE, "serve", "--host", host)
        assert code == 78
        assert f"'{host}' is an address that other machines can reach, so it needs TLS" in said
        assert "API keys" in said
        assert said.count("\n") == 1
        assert out == ""


def test_a_port_that_is_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, said = run(NOWHERE, "serve", "--port", str(port))
    assert code == 78
    assert said == (
        f"lockfast: port {port} of 127.0.0.1 cannot be used: Address already in use. Choose "
        "another port with --port, or end the program that uses this one: `ss -ltnp sport = "
        f":{port}` shows it (see: misconfigured)\n"
    )


@pytest.mark.parametrize("url", ["oracle://x", "not a url", "redis://x?misspelt=1"])
def test_a_wrong_url_is_refused_before_it_serves(url: str) -> None:
    code, _, said = run(url, "serve")
    assert code == 78
    assert "serving" not in said
    assert said.count("\n") == 1


def test_it_does_not_serve_itself() -> None:
    code, _, said = run("lockfast://127.0.0.1", "serve")
    assert code == 64
    assert said == ("lockfast: serve needs the URL of the engine itself, not that of the service\n")


def test_without_its_extra_it_says_how_to_get_it() -> None:
    program = (
        "import sys; sys.modules['uvicorn'] = None; import lockfast.cli as c; sys.exit(c.main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "serve", NOWHERE, "--port", str(free_port())],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 78, done.stderr
    assert "pip install 'lockfast[service]'" in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr  # and not that it serves
