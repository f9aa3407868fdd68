"""`install`, `--version`, and what `who` tells of a command and of a leader."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from importlib import metadata
from urllib.parse import urlsplit

import psycopg
import pytest

import lockfast
from lockfast import EngineUnavailable
from lockfast.cli.app import launch
from lockfast.engines.postgres import install
from lockfast.guards.postgres import install as guard_install
from tests.cli.commands.calls import LONG, Calls
from tests.cli.run.program import Program, run
from tests.servers import MariaDB, Postgres, Redis, free_port, wait_until


def install_twice(call: Calls, url: str) -> None:
    """Check that an installation can be repeated, and that locks work then."""
    for _ in range(2):
        said = call("install")
        assert (said.code, said.err) == (0, "")
        assert said.out.rstrip().endswith(f"is ready, in the database {urlsplit(url).path[1:]}.")
    with lockfast.connect(url) as client, client.lock("x", timeout=5):
        pass


def test_postgresql_is_ready_after_install(capsys: pytest.CaptureFixture[str]) -> None:
    with Postgres() as server:
        install_twice(Calls(server.url, capsys), server.url)


def test_mariadb_is_ready_after_install_and_says_before_what_is_missing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        call = Calls(server.url, capsys)
        said = call("ls")
        assert said.code == 78
        assert "not installed" in said.err
        install_twice(call, server.url)
        server.command("CREATE USER stranger@'%'")
        for url, complaint in (
            (server.url.replace(":tests@", ":wrong@"), "check the user and the password"),
            (f"{server.url}?ssl_mode=required", "the server does not offer TLS"),
            (server.address("stranger"), "install with a user that may create"),
        ):
            said = Calls(url, capsys)("install")
            assert said.code == 78, said.err
            assert complaint in said.err
            assert "wrong" not in said.err
            assert said.err.count("\n") == 1


def test_redlock_is_ready_after_install(capsys: pytest.CaptureFixture[str]) -> None:
    with Redis() as one, Redis() as two, Redis() as three:
        url = f"redlock://{one.address},{two.address},{three.address}"
        assert Calls(url, capsys)("install").code == 0
        with lockfast.connect(url) as client, client.lock("x", timeout=10):
            pass


def test_redis_needs_no_installation(call: Calls) -> None:
    assert "needs no installation." in call("install").out


def test_the_service_does_not_set_up_its_engine(capsys: pytest.CaptureFixture[str]) -> None:
    said = Calls(f"lockfast://127.0.0.1:{free_port()}", capsys)("install")
    assert said.code == 64
    assert said.err == (
        "lockfast: install needs the URL of the engine itself, not that of the service\n"
    )


def test_an_engine_that_is_not_there_cannot_be_installed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = Calls(f"postgresql://127.0.0.1:{free_port()}/app", capsys)("install")
    assert said.code == 69
    assert said.err.count("\n") == 1


def test_a_password_that_is_wrong_is_refused_and_not_out_of_reach(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with Postgres(config={"fsync": "off"}) as server:
        server.command("ALTER ROLE postgres PASSWORD 'secret'")
        (server.data_path / "pg_hba.conf").write_text("host all all all scram-sha-256\n", "utf-8")
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SELECT pg_reload_conf()")
        call = Calls(server.url.replace("postgres@", "postgres:wrong@"), capsys)
        wait_until(lambda: call("install").code != 0, "passwords are asked for")
        said = call("install")
        assert said.code == 78
        assert "password" in said.err
        assert "wrong" not in said.err
        assert said.err.count("\n") == 1
        for mode, complaint in (("disable", "no password supplied"), ("require", "SSL")):
            call = Calls(f"{server.url}?sslmode={mode}", capsys)
            for command in (["install"], ["ls"]):
                said = call(*command)
                assert said.code == 78, said.err
                assert complaint in said.err


def test_a_right_that_is_missing_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with Postgres(config={"fsync": "off"}) as server:
        server.command("CREATE ROLE stranger LOGIN")
        said = Calls(server.url.replace("postgres@", "stranger@"), capsys)("install")
        assert said.code == 78
        assert "permission denied" in said.err
        assert "install with a role that may create a schema" in said.err
        assert said.err.count("\n") == 1
        server.command("CREATE SCHEMA lockfast AUTHORIZATION stranger")
        said = Calls(server.url, capsys)("install")
        assert said.code == 78
        assert "ALTER SCHEMA lockfast OWNER TO" in said.err  # the server's hint


def test_an_installation_that_another_transaction_holds_up_is_unavailable(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """psycopg raises subclasses of OperationalError once it is connected."""
    with Postgres(config={"fsync": "off"}) as server:
        install(server.url)
        server.command("ALTER ROLE postgres SET lock_timeout = '200ms'")
        with psycopg.connect(server.url) as other:
            other.execute("LOCK TABLE lockfast.bucket IN ACCESS EXCLUSIVE MODE")
            said = Calls(server.url, capsys)("install")
        assert said.code == 69
        assert "lock timeout" in said.err


@pytest.mark.parametrize("installing", [install, guard_install])
def test_an_installation_does_not_wait_for_ever_for_another_transaction(
    installing: Callable[[str], None],
) -> None:
    """Everybody who came after it would wait behind it."""
    with Postgres(config={"fsync": "off"}) as server:
        installing(server.url)
        schema = "lockfast" if installing is install else "lockfast_guard"
        table = "bucket" if installing is install else "mark"
        began = time.monotonic()
        with psycopg.connect(server.url) as other:
            other.execute(f"LOCK TABLE {schema}.{table} IN ACCESS EXCLUSIVE MODE")
            with pytest.raises((EngineUnavailable, psycopg.errors.LockNotAvailable)) as late:
                installing(server.url)
            why = late.value.__cause__ if installing is install else late.value
            assert isinstance(why, psycopg.errors.LockNotAvailable)
        assert 5.0 < time.monotonic() - began < 20.0


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert launch(["--version"]) == 0
    assert capsys.readouterr().out == f"lockfast {metadata.version('lockfast')}\n"


def test_who_tells_the_purpose_of_a_command_and_calls_no_holder_waiting(call: Calls) -> None:
    with Program(call.url, "run", "job", "--purpose", "books of May", "--", "sleep", "30"):
        with lockfast.connect(call.url) as client:
            wait_until(lambda: bool(client.lock("job").holders()), "it runs", 30.0)
        said = call("who", "job").out
    assert "(books of May)" in said
    assert "[waiting]" not in said
    assert "[MainThread]" in said


def test_without_a_purpose_it_is_the_name_of_the_command(call: Calls) -> None:
    with Program(call.url, "run", "job", "--", "sleep", "30"):
        with lockfast.connect(call.url) as client:
            wait_until(lambda: bool(client.lock("job").holders()), "it runs", 30.0)
        assert call("who", "job", "--json").objects[0]["purpose"] == "sleep"


def test_who_tells_what_a_leader_publishes(call: Calls) -> None:
    with lockfast.connect(call.url) as client:
        lease = client.election("lead", ttl=LONG).campaign("web-3:8080\x1b[2J")
        assert "it publishes web-3:8080\\x1b[2J" in call("who", "lead").out
        assert call("who", "lead", "--json").objects[0]["value"] == "web-3:8080\x1b[2J"
        lease.release()


def test_a_busy_command_line_is_told_its_own_options_and_not_the_librarys(url: str) -> None:
    with lockfast.connect(url) as client, client.lock("busy", ttl=LONG, purpose="books"):
        for more in (("-n",), ("-w", "0.1")):
            code, _, complaint = run(url, "run", "busy", *more, "--", "true")
            assert code == 75
            assert re.search(r"'busy' is busy .* \(books\)", complaint)
            assert "-w SECONDS" in complaint
            assert "timeout=" not in complaint
