"""PostgreSQL, and PgBouncer in front of it: real processes, run as the user postgres."""

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

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

_USER = "postgres"


def _as_user(*argv: str) -> list[str]:
    """Write a command line that does not run as root, which these servers refuse."""
    if os.geteuid() != 0:
        return list(argv)
    return [program("setpriv"), f"--reuid={_USER}", f"--regid={_USER}", "--clear-groups", *argv]


def _tool(name: str) -> str:
    """Find a program of the newest PostgreSQL; Debian keeps them out of PATH.

    `LOCKFAST_POSTGRES` is the folder with the programs of another one, if it has them.
    """
    chosen = Path(os.environ.get("LOCKFAST_POSTGRES", "")) / name
    if chosen.is_file():
        return str(chosen)
    found = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), key=lambda path: int(path.parts[4])
    )
    return str(found[-1]) if found else program(name)


class _Unprivileged(Server):
    """A server whose folder belongs to the user that it runs as."""

    def __init__(
        self, name: str, *, env: Mapping[str, str] | None = None, home: Home | None = None
    ) -> None:
        super().__init__(name, env=env, home=home)
        self.host = address_of(home)
        self.port = free_port()
        give(self, _USER)

    @property
    def plain_url(self) -> str:
        """The address for a client that says nothing about TLS."""
        return f"postgresql://postgres@{self.host}:{self.port}/postgres"

    @property
    def url(self) -> str:
        """The address for a client."""
        return self.plain_url

    def connect(self) -> psycopg.Connection[tuple[Any, ...]]:
        """Open a connection that may do anything."""
        return psycopg.connect(self.url, autocommit=True, connect_timeout=5)

    def command(self, sql: str) -> list[tuple[Any, ...]]:
        """Run one statement on a connection of its own, and give its rows."""
        with self.connect() as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def is_ready(self) -> bool:
        """Tell whether it answers."""
        try:
            return self.command("SELECT 1") == [(1,)]
        except psycopg.OperationalError:
            return False

    def version(self) -> str:
        """Tell its version."""
        ((said,),) = self.command("SHOW server_version")
        return str(said).partition(" ")[0]

    @property
    def pids(self) -> list[int]:
        """The process and its children, which lead sessions of their own."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text(encoding="ascii")
        return [self.pid, *map(int, children.split())]

    def pause(self) -> None:
        """Stop every process of the server."""
        super().pause()  # the parent first: no child is born behind our back
        for pid in self.pids[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let them all go on."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class Postgres(_Unprivileged):
    """One PostgreSQL server with an empty database, or a copy of another's."""

    def __init__(
        self,
        *,
        config: Mapping[str, str] | None = None,
        replica_of: "Postgres | None" = None,
        certificates: Certificates | None = None,
        env: Mapping[str, str] | None = None,
        home: Home | None = None,
    ) -> None:
        """Make the data; config is further lines of postgresql.conf, written as they are. With
        certificates, clients that use its url demand TLS and look at who the server is.
        """
        super().__init__("postgres", env=env, home=home)
        self.certificates = certificates
        self.data_path = self.folder / "data"
        if replica_of is None:
            run(program("cp"), "-a", str(_template(_tool("initdb"))), str(self.data_path))
            if home is not None:
                with (self.data_path / "pg_hba.conf").open("a", encoding="utf-8") as file:
                    file.write("host all,replication all samenet trust\n")
        else:
            run(
                *_as_user(_tool("pg_basebackup"), "--pgdata", str(self.data_path), "--no-sync"),
                *("--write-recovery-conf", "--checkpoint", "fast"),
                # Without TLS, for which libpq would look for a certificate in the home of root.
                *("--dbname", f"{replica_of.plain_url}?sslmode=disable"),
            )
        lines = {
            "listen_addresses": f"'{self.host}'",
            "port": str(self.port),
            "unix_socket_directories": "''",
            "max_connections": "200",
            "shared_buffers": "'32MB'",
            **self._secure(),
            **(config or {}),
        }
        with (self.data_path / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.writelines(f"{name} = {value}\n" for name, value in lines.items())

    def _secure(self) -> dict[str, str]:
        """Speak TLS too, with a key that is the server's own, as it demands."""
        files = self.certificates
        if files is None:
            return {}
        key, certificate = self.folder / "server.key", self.folder / "server.crt"
        shutil.copyfile(files.key_path, key)
        shutil.copyfile(files.certificate_path, certificate)
        key.chmod(0o600)
        if os.geteuid() == 0:
            shutil.chown(key, _USER, _USER)
            shutil.chown(certificate, _USER, _USER)
        return {"ssl": "on", "ssl_cert_file": f"'{certificate}'", "ssl_key_file": f"'{key}'"}

    @property
    def url(self) -> str:
        """The address for a client."""
        if self.certificates is None:
            return self.plain_url
        return f"{self.plain_url}?sslmode=verify-full&sslrootcert={self.certificates.ca_path}"

    def argv(self) -> list[str]:
        """Tell the command line."""
        return _as_user(_tool("postgres"), "-D", str(self.data_path))

    def stop(self, timeout: float = 5.0) -> None:
        """Shut down fast: the default would wait for every client to leave."""
        if self.alive:
            self.resume()
            os.kill(self.pid, signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                if self._process is not None:
                    self._process.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """End every process of the server at once: a paused one would not see its parent's end,
        and none may start anew while one of the old is attached to its memory.
        """
        pids = self.pids if self.alive else []
        super().kill()
        for pid in pids[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pid in pids[1:]:
            wait_until(partial(_is_gone, pid), f"the process {pid} has ended")

    def restart(self) -> None:
        """Stop and start again on the same port, with the data."""
        self.stop()
        self.start()

    def promote(self) -> None:
        """Make a replica the primary."""
        if self.command("SELECT pg_promote()") != [(True,)]:
            raise ServerError("the replica was not promoted in time")


@functools.cache
def _template(initdb: str) -> Path:
    """Make a new server's data once: it takes 0.65 s of a processor, and a copy 0.09 s.

    All servers of a process then have one system identifier, by which replicas tell clusters
    apart. So no test may expect that a stranger's replica is refused.
    """
    folder = Path(tempfile.mkdtemp(prefix="postgres-template-", dir=guard().folder))
    if os.geteuid() == 0:
        guard().folder.chmod(0o755)
        shutil.chown(folder, _USER, _USER)
    data = folder / "data"
    run(
        *_as_user(initdb, "--pgdata", str(data), "--auth", "trust"),
        *("--username", "postgres", "--encoding", "UTF8", "--no-locale", "--no-sync"),
    )
    return data


def _is_gone(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return True
    return stat.rpartition(")")[2].split()[0] == "Z"


class PgBouncer(_Unprivileged):
    """PgBouncer in transaction mode: a connection is a client's for one transaction only."""

    def __init__(self, server: Postgres, *, pool_size: int = 2, home: Home | None = None) -> None:
        """Stand in front of that server. It asks one that was down again after a second, and not
        after a quarter of a minute.
        """
        super().__init__("pgbouncer", home=home)
        self._config_path = self.folder / "pgbouncer.ini"
        self._config_path.write_text(
            "[databases]\n"
            f"* = host={server.host} port={server.port} user=postgres\n"
            "[pgbouncer]\n"
            f"listen_addr = {self.host}\nlisten_port = {self.port}\nunix_socket_dir =\n"
            "auth_type = any\npool_mode = transaction\nmax_client_conn = 200\n"
            f"default_pool_size = {pool_size}\nserver_login_retry = 1\n",
            encoding="utf-8",
        )

    def version(self) -> str:
        """Tell its own version, and not that of the server behind it."""
        return run(program("pgbouncer"), "--version").split()[1]

    def argv(self) -> list[str]:
        """Tell the command line."""
        return _as_user(program("pgbouncer"), str(self._config_path))
