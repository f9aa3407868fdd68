"""Logins at MariaDB: plugins, TLS, rights and installations."""

from __future__ import annotations

import os
import pwd
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pymysql
import pytest

import lockfast
from lockfast import EngineRefused, EngineUnavailable
from lockfast.engines.mysql import install, schema
from lockfast.testing import MODES, Mode, UrlBench
from lockfast.testing.harness.bench import made
from lockfast.testing.harness.verbs import acquire, close, release
from tests.servers import MariaDB, Proxy

PASSWORD = "p@ss/w:rd é"  # noqa: S105  # of a server of the tests
QUOTED = "p%40ss%2Fw%3Ard%20%C3%A9"


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    config = {"plugin-load-add": "auth_ed25519", "innodb-flush-log-at-trx-commit": "0"}
    with MariaDB(config=config) as server:
        install(server.url)
        yield server


@pytest.fixture(scope="module")
def secure() -> Iterator[MariaDB]:
    with MariaDB(tls=True, config={"bind-address": "0.0.0.0"}) as server:  # noqa: S104  # for 127.0.0.2
        install(server.url)
        yield server


@pytest.fixture(params=sorted(MODES))
def mode(request: pytest.FixtureRequest) -> Iterator[Mode]:
    mode = MODES[request.param]()
    yield mode
    mode.close()


def takes(url: str, mode: Mode, *, timeout: float = 5.0) -> None:
    """Acquire and release a lock."""

    async def play() -> None:
        client = UrlBench.client(Anywhere(url), mode)
        try:
            await release(await acquire(client.lock("x", ttl=30.0), timeout))
        finally:
            await close(client)

    mode.run(play())


class Anywhere(UrlBench):
    def wipe(self) -> None:
        """Leave it."""


def user(server: MariaDB, identified: str) -> str:
    name = f"u{secrets.token_hex(4)}"
    server.command(f"CREATE USER {name}@'%' IDENTIFIED {identified}")
    server.command(f"GRANT EXECUTE ON lockfast.* TO {name}@'%'")
    return name


@pytest.mark.parametrize(
    "identified",
    [
        f"BY '{PASSWORD}'",
        f"VIA ed25519 USING PASSWORD('{PASSWORD}')",
        f"VIA mysql_native_password USING PASSWORD('{PASSWORD}')",
    ],
    ids=["default", "ed25519", "native"],
)
def test_a_user_logs_in_with_its_plugin(server: MariaDB, mode: Mode, identified: str) -> None:
    name = user(server, identified)
    takes(server.address(name, QUOTED), mode)
    with pytest.raises(EngineRefused, match=r"Access denied.*password in the URL"):
        takes(server.address(name, "wrong"), mode)


def test_a_unix_socket(server: MariaDB, mode: Mode) -> None:
    takes(f"mariadb://root:tests@/lockfast?unix_socket={server.socket_path}", mode)


def test_an_account_without_a_password_is_for_the_system_user_of_its_name(
    server: MariaDB, mode: Mode
) -> None:
    # As `root` is on Debian: a program of another system user, or one that comes by TCP, cannot.
    me, other = pwd.getpwuid(os.geteuid()).pw_name, f"u{secrets.token_hex(4)}"
    for name in (me, other):
        server.command(f"CREATE OR REPLACE USER '{name}'@localhost IDENTIFIED VIA unix_socket")
        server.command(f"GRANT EXECUTE ON lockfast.* TO '{name}'@localhost")
    try:
        takes(f"mysql://{me}@/lockfast?unix_socket={server.socket_path}", mode)
        with pytest.raises(EngineRefused, match=r"1698.*unix_socket=PATH"):
            takes(f"mysql://{other}@/lockfast?unix_socket={server.socket_path}", mode)
    finally:
        server.command(f"DROP USER '{me}'@localhost, '{other}'@localhost")


def test_tls_is_verified(secure: MariaDB, mode: Mode) -> None:
    takes(secure.url, mode)
    where = f"mysql://root:tests@{secure.host}:{secure.port}/lockfast"
    with pytest.raises(EngineRefused, match=r"certificate was not accepted.*ssl_ca"):
        takes(f"{where}?ssl_mode=verify_identity", mode)
    takes(f"{where}?ssl_mode=required", mode)
    takes(where, mode)  # on this machine, by TLS without a check


def test_the_name_of_the_host_is_verified(secure: MariaDB, mode: Mode) -> None:
    options = f"?ssl_ca={secure.ca_path}"
    with pytest.raises(EngineRefused, match=r"certificate was not accepted.*name that is in the"):
        takes(f"mysql://root:tests@127.0.0.2:{secure.port}/lockfast{options}", mode, timeout=1.0)
    takes(f"mysql://root:tests@localhost:{secure.port}/lockfast{options}", mode)


def test_a_server_without_tls_is_refused_if_tls_was_asked_for(server: MariaDB, mode: Mode) -> None:
    url = f"mysql://root:tests@{server.host}:{server.port}/lockfast?ssl_mode=required"
    with pytest.raises(EngineRefused, match=r"does not offer TLS.*ssl_mode=disabled"):
        takes(url, mode)


# --- rights and installations -------------------------------------------------------------------


def test_a_user_with_execute_has_no_right_to_the_tables(server: MariaDB, mode: Mode) -> None:
    name = user(server, "BY 'p'")
    takes(server.address(name, "p"), mode)
    with server.connect(name, "p", database="lockfast") as connection:
        for sql in (
            "SELECT * FROM lockfast_claim",
            "UPDATE lockfast_bucket SET last = 0",
            "CALL lockfast_sweep_v1(1, 0, @a, @b)",
            "CALL lockfast_leave_v1(1, 'a', 1, 1, 1, 1, 1, 1, 1, @a)",
        ):
            with connection.cursor() as cursor, pytest.raises(pymysql.Error, match="denied"):
                cursor.execute(sql)
        heard = "SELECT SUM(n) FROM lockfast.lockfast_ear"
        before = server.command(heard)
        with connection.cursor() as cursor:
            cursor.execute("CALL lockfast_tell_v1(REPEAT('a', 28))")
        assert server.command(heard) == before


def test_what_is_missing_is_said(server: MariaDB, mode: Mode) -> None:
    name = f"u{secrets.token_hex(4)}"
    server.command(f"CREATE USER {name}@'%'")
    with pytest.raises(EngineRefused, match="GRANT EXECUTE"):
        takes(server.address(name), mode)
    elsewhere = server.url.replace("/lockfast", "/elsewhere")
    with pytest.raises(EngineRefused, match="install"):
        takes(elsewhere, mode)
    server.command("CREATE OR REPLACE DATABASE empty")
    with pytest.raises(EngineRefused, match="install"):
        takes(server.url.replace("/lockfast", "/empty"), mode)


def test_an_installation_can_be_repeated_and_keeps_locks(server: MariaDB, mode: Mode) -> None:
    async def play() -> None:
        client = made(mode, Anywhere(server.url).open)
        lease = await acquire(client.lock("kept", ttl=30.0), 5.0)
        install(server.url)
        await release(lease)
        await close(client)

    mode.run(play())


def test_an_installation_into_a_database_of_the_application(server: MariaDB, mode: Mode) -> None:
    server.command("CREATE OR REPLACE DATABASE `my shop`")
    server.command("CREATE OR REPLACE USER shop@'%' IDENTIFIED BY 'p'")
    server.command("GRANT ALL ON `my shop`.* TO shop@'%'")
    url = f"mysql://shop:p@{server.host}:{server.port}/my%20shop"
    install(url)
    takes(url, mode)


def test_a_later_version_is_left_alone(server: MariaDB) -> None:
    server.command("CREATE DATABASE later")
    server.command("CREATE PROCEDURE later.lockfast_claim_v2() SELECT 1")
    with pytest.raises(EngineRefused, match="later version"):
        install(server.url.replace("/lockfast", "/later"))
    assert server.command("SHOW TABLES FROM later") == []


def test_an_installation_without_rights_says_so(server: MariaDB) -> None:
    server.command("CREATE OR REPLACE USER poor@'%'")
    with pytest.raises(EngineRefused, match="install with a user"):
        install(server.address("poor"))


def test_an_installation_creates_no_user(server: MariaDB) -> None:
    # MariaDB's GRANT did, without a password and from every host, for a name that was misspelt.
    with pytest.raises(EngineRefused, match="CREATE USER first"):
        install(server.url, role="mispelt")
    assert server.command("SELECT 1 FROM mysql.user WHERE user = 'mispelt'") == []


def test_the_sql_is_for_both_servers() -> None:
    mariadb, mysql = schema(mariadb=True), schema(mariadb=False)
    assert "CREATE OR REPLACE PROCEDURE lockfast_claim_v1" in mariadb
    assert "DROP PROCEDURE IF EXISTS lockfast_claim_v1//" in mysql
    for word in ("OR REPLACE", "wsrep", "{"):
        assert word not in mysql


# --- faults of the connection -------------------------------------------------------------------


def test_an_idle_connection_that_the_server_closed_costs_nothing(
    server: MariaDB, mode: Mode
) -> None:
    async def play() -> None:
        client = made(mode, Anywhere(server.url).open)
        lock = client.lock("idle", ttl=30.0)
        await release(await acquire(lock, 5.0))
        await mode.sleep(1.1)
        ours = "SELECT ID FROM information_schema.PROCESSLIST WHERE DB = 'lockfast'"
        for (number,) in server.command(ours):
            server.command(f"KILL {number}")
        await release(await acquire(lock, 0.0))
        await close(client)

    mode.run(play())


def test_binlog_format_statement_is_explained(mode: Mode) -> None:
    config = {"log-bin": "log", "binlog-format": "STATEMENT", "sync-binlog": "1"}
    with MariaDB(config=config) as server:
        install(server.url)
        with pytest.raises(EngineRefused, match="binlog_format = ROW"):
            takes(server.url, mode)


def test_of_several_servers_the_one_that_can_be_written_to_is_used(
    server: MariaDB, mode: Mode
) -> None:
    with MariaDB() as replica:
        install(replica.url)
        replica.command("SET GLOBAL read_only = 1")
        both = f"mysql://root:tests@{replica.host}:{replica.port},{server.host}:{server.port}"
        takes(f"{both}/lockfast", mode)
        with pytest.raises(EngineUnavailable, match="read-only"):
            takes(replica.url, mode, timeout=0.5)


def test_a_server_that_sends_a_byte_now_and_then_does_not_extend_a_deadline(
    server: MariaDB, mode: Mode
) -> None:
    with Proxy(server.host, server.port) as proxy:
        url = server.url.replace(f":{server.port}", f":{proxy.port}")
        proxy.delay(0.4)
        began = time.monotonic()
        with pytest.raises(lockfast.LockfastError):
            takes(url, mode, timeout=1.0)
        assert time.monotonic() - began < 3.5  # closing has its own two seconds


def packet(number: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes([number]) + payload


ROWS = b"".join(packet(number % 256, b"\0") for number in range(4, 4 + 4096))


def pretend(listener: socket.socket, rows: bytes) -> None:
    """Let every client log in, and answer its first statement with these rows, again and again. If
    there are none, close the connection.
    """
    greeting = b"\x0a10.11.0-MariaDB\0" + bytes(4) + b"A" * 8 + b"\0\xfe\xf7\x2d\x02\0\xff\x81\x15"
    greeting += bytes(10) + b"B" * 12 + b"\0mysql_native_password\0"

    def serve(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.sendall(packet(0, greeting))
            connection.recv(4096)
            connection.sendall(packet(2, b"\0\0\0\2\0\0\0"))
            connection.recv(4096)
            columns = [b"\1", b"\3def", b"\xfe\0\0\2\0"]
            connection.sendall(b"".join(packet(n, each) for n, each in enumerate(columns, 1)))
            while rows:
                connection.sendall(rows)

    with suppress(OSError):  # the test has closed the listener
        while True:
            threading.Thread(target=serve, args=listener.accept()[:1], daemon=True).start()


@pytest.fixture
def pretender(request: pytest.FixtureRequest) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=pretend, args=(listener, request.param), daemon=True).start()
        yield f"mysql://u:p@127.0.0.1:{listener.getsockname()[1]}/x?ssl_mode=disabled"


@pytest.mark.parametrize("pretender", [ROWS], indirect=True, ids=["rows"])
def test_a_server_that_never_stops_sending_does_not_extend_a_deadline(
    pretender: str, mode: Mode
) -> None:
    began = time.monotonic()
    with pytest.raises(EngineUnavailable):
        takes(pretender, mode, timeout=1.0)
    assert time.monotonic() - began < 4.0  # closing has its own two seconds


@pytest.mark.parametrize("pretender", [b""], indirect=True, ids=["none"])
def test_a_connection_that_ends_after_the_login_is_named_once(pretender: str, mode: Mode) -> None:
    with pytest.raises(EngineUnavailable) as caught:
        takes(pretender, mode, timeout=1.0)
    assert str(caught.value).count("MySQL at") == 1


def test_a_forked_child_leaves_the_connections_of_its_parent_alone(server: MariaDB) -> None:
    with lockfast.connect(server.url) as client:
        lock = client.lock("forked", ttl=30.0)
        lease = lock.acquire(timeout=5)
        pid = os.fork()
        if pid == 0:
            try:
                client.lock("child", ttl=30.0).acquire(timeout=5).release()
            finally:
                os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        lease.ensure_held()
        lease.release()
        lock.acquire(timeout=5).release()


def test_a_password_file(server: MariaDB, mode: Mode, tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("tests\n")
    url = f"mysql://root@{server.host}:{server.port}/lockfast?password_file={path}"
    takes(url, mode)
