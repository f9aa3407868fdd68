"""MariaDB: real processes, run as the user mysql, each with data of its own."""

import functools
import os
import shutil
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pymysql
from pymysql.connections import Connection

from tests.servers.certificates import Certificates
from tests.servers.guard import guard
from tests.servers.owner import give
from tests.servers.process import (
    Home,
    Server,
    ServerError,
    address_of,
    free_port,
    program,
    run,
    wait_until,
)

_USER = "mysql"
_ROOT, _PASSWORD = "root", "tests"
# `root` may come from every address, because servers with a home have other ones. The accounts
# without a password that a new server has are dropped, or they would be chosen for a local client.
_ACCOUNTS = """
DELETE FROM mysql.global_priv WHERE User <> 'mariadb.sys';
FLUSH PRIVILEGES;
CREATE USER root@'%' IDENTIFIED BY 'tests';
GRANT ALL ON *.* TO root@'%' WITH GRANT OPTION;
"""
_SMALL = "--innodb-log-file-size=8M"  # not its 96 MB: each server copies the data


class MariaDB(Server):
    """One MariaDB server. Its data are new, and stay when it is killed and started again."""

    def __init__(
        self,
        *,
        config: Mapping[str, str] | None = None,
        tls: bool | Certificates = False,
        env: Mapping[str, str] | None = None,
        home: Home | None = None,
    ) -> None:
        """Make the data; config is further options of the server, without their dashes.

        With tls it has a certificate for 127.0.0.1, or those that are given, and still serves
        without TLS whoever wants that; env is for ServerClock.
        """
        super().__init__("mariadb", env=env, home=home)
        self.host = address_of(home)
        self.port = free_port()
        self.data_path = self.folder / "data"
        self.socket_path = self.folder / "s"
        """Short, because a socket's path has a hundred characters at most."""
        give(self, _USER)
        run(program("cp"), "-a", str(_template()), str(self.data_path))
        self._certificates = Certificates(self.folder) if tls is True else tls or None
        if self._certificates is not None:
            self._certificates.key_path.chmod(0o644)  # its own user has to read it
        self.config = {
            "datadir": str(self.data_path),
            "socket": str(self.socket_path),
            "pid-file": str(self.folder / "pid"),
            "tmpdir": str(self.folder),
            "bind-address": self.host,
            "port": str(self.port),
            "server-id": str(self.port),
            "innodb-flush-log-at-trx-commit": "1",
            # Or it ends itself when a test moves its clock while a thread waits.
            "innodb-fatal-semaphore-wait-threshold": "2147483647",
            "innodb-buffer-pool-size": "32M",
            "max-connections": "400",
            "performance-schema": "0",
            "skip-name-resolve": "1",
            **(config or {}),
        }

    @property
    def ca_path(self) -> Path | None:
        """The CA that vouches for this server, if it speaks TLS."""
        return None if self._certificates is None else self._certificates.ca_path

    @property
    def url(self) -> str:
        """The address for a client, with an account that may do anything."""
        return self.address(_ROOT, _PASSWORD)

    def address(self, user: str, password: str | None = None) -> str:
        """Tell the address for a client that logs in as this user, by TLS if the server has it."""
        login = user if password is None else f"{user}:{password}"
        if self.ca_path is not None:
            mode = f"?ssl_ca={self.ca_path}&ssl_mode=verify_identity"
        else:
            # Servers with a home are no loopback address, and there TLS is the default.
            mode = "" if self.home is None else "?ssl_mode=disabled"
        return f"mysql://{login}@{self.host}:{self.port}/lockfast{mode}"

    def argv(self) -> list[str]:
        """Tell the command line."""
        options = [f"--{name}={value}" for name, value in self.config.items()]
        if self._certificates is not None:
            options += [
                f"--ssl-ca={self._certificates.ca_path}",
                f"--ssl-cert={self._certificates.certificate_path}",
                f"--ssl-key={self._certificates.key_path}",
            ]
        return [program("mariadbd"), "--no-defaults", *_as_user(), _SMALL, *options]

    def connect(
        self,
        user: str = _ROOT,
        password: str = _PASSWORD,
        **options: Any,  # noqa: ANN401  # those of pymysql.connect
    ) -> "Connection[pymysql.cursors.Cursor]":
        """Open a connection in autocommit, by default with an account that may do anything."""
        tls = None if self.ca_path is None else ssl.create_default_context(cafile=self.ca_path)
        return pymysql.connect(
            **{
                "host": self.host,
                "port": self.port,
                "user": user,
                "password": password,
                "autocommit": True,
                "connect_timeout": 5,
                "ssl": tls,
                # Else PyMySQL reads all certificates of the system for every connection.
                "ssl_disabled": tls is None,
                **options,
            }
        )

    def command(self, sql: str, *args: object) -> list[tuple[Any, ...]]:
        """Run one statement on a connection of its own, and give its rows."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(sql, args or None)
            return list(cursor.fetchall()) if cursor.description else []

    def version(self) -> str:
        """Tell its version."""
        ((said,),) = self.command("SELECT VERSION()")
        return str(said).partition("-")[0]

    def is_ready(self) -> bool:
        """Tell whether it answers."""
        try:
            return self.command("SELECT 1") == [(1,)]
        except pymysql.OperationalError:
            return False

    def restart(self) -> None:
        """Stop and start again on the same port, with the data."""
        self.stop()
        self.start()

    def follow(
        self, primary: "MariaDB", *, position: str = "slave_pos", timeout: float = 10.0
    ) -> None:
        """Replicate another server, and wait until it is caught up; both need the config log-bin.

        A new server begins at the first transaction, and one that was the primary at its own last
        one, with the position `current_pos`.
        """
        self.command(
            "CHANGE MASTER TO master_host=%s, master_port=%s, master_user=%s, master_password=%s, "
            f"master_use_gtid={position}, master_connect_retry=1",
            *(primary.host, primary.port, _ROOT, _PASSWORD),
        )
        self.command("START SLAVE")
        self.caught_up(primary, timeout=timeout)

    def caught_up(self, primary: "MariaDB", *, timeout: float = 10.0) -> None:
        """Wait until this replica has applied all that its primary has committed. Some of that it
        may have committed itself, when it was the primary.
        """
        ((position,),) = primary.command("SELECT @@gtid_binlog_pos")
        applied = "SELECT @@gtid_current_pos = %s OR MASTER_GTID_WAIT(%s, 0) = 0"
        wait_until(
            lambda: self.command(applied, position, position) == [(1,)],
            f"the replica has applied {position}",
            timeout,
        )

    def promote(self) -> None:
        """Make a replica the primary, with what it has received."""
        self.command("STOP SLAVE")
        self.command("RESET SLAVE ALL")
        self.command("SET GLOBAL read_only = 0")
        self.config.pop("read-only", None)  # or it would be a replica again after a crash

    def follows(self) -> bool:
        """Tell whether this replica is connected to its primary and applies what it receives."""
        said = self.command("SHOW GLOBAL STATUS LIKE 'Slave_running'")
        return said == [("Slave_running", "ON")]


def _as_user() -> list[str]:
    """Write the options with which the server does not run as root, if this process does."""
    return [f"--user={_USER}"] if os.geteuid() == 0 else []


@functools.cache
def _template() -> Path:
    """Make a new server's data once, which takes as long as to start one."""
    folder = Path(tempfile.mkdtemp(prefix="mariadb-template-", dir=guard().folder))
    data, scratch, accounts = folder / "data", folder / "tmp", folder / "accounts.sql"
    accounts.write_text(_ACCOUNTS, encoding="ascii")
    data.mkdir()
    scratch.mkdir()
    if os.geteuid() == 0:
        guard().folder.chmod(0o755)
        folder.chmod(0o755)
        shutil.chown(data, _USER, _USER)
        shutil.chown(scratch, _USER, _USER)
    run(
        *(program("mariadb-install-db"), "--no-defaults", *_as_user(), _SMALL),
        *(f"--datadir={data}", "--auth-root-authentication-method=normal", "--skip-test-db"),
        # A server that starts removes the temporary tables of all others from a shared /tmp.
        *("--skip-name-resolve", f"--extra-file={accounts}", f"--tmpdir={scratch}"),
    )
    if not (data / "ibdata1").exists():
        raise ServerError("mariadb-install-db made no data")
    return data
