"""One redis-server, with the options the tests need."""

import secrets
import shutil
import ssl
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from tests.servers.certificates import Certificates
from tests.servers.node import Node, quoted
from tests.servers.process import Home, program, wait_until
from tests.servers.resp import Connection


class Redis(Node):
    """A standalone redis-server; it keeps nothing on disk unless told to."""

    def __init__(  # noqa: PLR0913 - each is one independent option of a server
        self,
        *,
        username: str | None = None,
        password: str | None = None,
        acl: str = "~* &* +@all",
        tls: "bool | Redis | Certificates" = False,
        mutual: bool = False,
        appendonly: bool = False,
        maxmemory: str | None = None,
        maxmemory_policy: str = "noeviction",
        replica_of: "Redis | None" = None,
        config: Mapping[str, str] | None = None,
        env: Mapping[str, str] | None = None,
        home: Home | None = None,
    ) -> None:
        """Write the configuration.

        A username makes an ACL user with the password and the rules in acl; the url is that
        user's. `command` goes on as the default user, who may do everything. With tls=another, it
        shows the other's certificate, so that one URL with one CA can name both, and with
        tls=certificates it shows these. With mutual TLS, it demands a certificate, and the url
        names the one that it shows itself. The config is further lines of redis.conf, written as
        they are; env is for ServerClock.
        """
        super().__init__("redis", env=env, home=home)
        self.username = username
        self.password = password
        self.appendonly = appendonly
        self._mutual = mutual
        self.data_path = self.folder / "data"
        self.data_path.mkdir()
        self._config_path = self.folder / "redis.conf"
        # With an ACL user, the default user stays as the harness's own way in.
        self._admin_password = password if username is None else secrets.token_hex(8)
        self._certificates: Certificates | None = (
            tls._certificates
            if isinstance(tls, Redis)
            else tls
            if isinstance(tls, Certificates)
            else Certificates(self.folder)
            if tls
            else None
        )
        lines = {
            "bind": self.host,
            # At home it has another address than 127.0.0.1, and no password.
            **({} if home is None else {"protected-mode": "no"}),
            "dir": quoted(str(self.data_path)),
            "save": '""',
            "appendonly": "yes" if appendonly else "no",
            # A replica in a test need not wait for others to share its first snapshot.
            "repl-diskless-sync-delay": "0",
            # After a ServerClock has gone back, that thread finds every deadline in the past, and
            # keeps a core busy for as long as the server lives.
            "jemalloc-bg-thread": "no",
            **self._listening(),
        }
        if self._admin_password is not None:
            lines["requirepass"] = quoted(self._admin_password)
            # A primary that Sentinel makes a replica one day needs the password then.
            lines["masterauth"] = quoted(self._admin_password)
        if username is not None:
            secret = "nopass" if password is None else quoted(f">{password}")
            lines["user"] = f"{username} on {secret} {acl}"
        if maxmemory is not None:
            lines |= {"maxmemory": maxmemory, "maxmemory-policy": maxmemory_policy}
        if replica_of is not None:
            lines |= replica_of.replica_lines()
        lines |= config or {}
        # A file rather than arguments, so that CONFIG REWRITE (which Sentinel sends) can work.
        self._config_path.write_text(
            "".join(f"{name} {value}\n" for name, value in lines.items()), encoding="utf-8"
        )

    @property
    def ca_path(self) -> Path | None:
        """The CA that vouches for this server, if it speaks TLS."""
        return None if self._certificates is None else self._certificates.ca_path

    @property
    def url(self) -> str:
        """The address for a client, with the user and the password."""
        user = quote(self.username or "", safe="")
        secret = "" if self.password is None else ":" + quote(self.password, safe="")
        login = f"{user}{secret}@" if user or secret else ""
        if self.ca_path is None:
            return f"redis://{login}{self.address}"
        url = f"rediss://{login}{self.address}?ssl_ca_certs={quote(str(self.ca_path))}"
        files = self._certificates
        if files is None or not self._mutual:
            return url
        return f"{url}&ssl_certfile={files.certificate_path}&ssl_keyfile={files.key_path}"

    def argv(self) -> list[str]:
        """Tell the command line."""
        return [program("redis-server"), str(self._config_path)]

    def connect(self, timeout: float = 5.0) -> Connection:
        """Open a connection that may do anything."""
        files = self._certificates
        tls = None if files is None else ssl.create_default_context(cafile=files.ca_path)
        if files is not None and tls is not None:
            tls.load_cert_chain(files.certificate_path, files.key_path)
        connection = Connection(self.host, self.port, tls=tls, timeout=timeout)
        if self._admin_password is not None:
            try:
                connection.command("AUTH", self._admin_password)
            except BaseException:
                connection.close()
                raise
        return connection

    def restart(self, *, keep_data: bool) -> None:
        """Stop and start again on the same port, with the data or without.

        A server that runs without an append-only file is told to SAVE first; one that was
        killed comes back with whatever it had on disk.
        """
        if keep_data and self.alive and not self.appendonly:
            self.command("SAVE")
        self.stop()
        if not keep_data:
            shutil.rmtree(self.data_path)
            self.data_path.mkdir()
        self.start()

    def is_linked(self) -> bool:
        """Tell whether this replica's link to its primary is up."""
        try:
            return self.info("replication").get("master_link_status") == "up"
        except ConnectionError:  # a Sentinel that makes it a replica cuts its clients off
            return False

    def wait_in_step(self, primary: "Redis", timeout: float = 10.0) -> None:
        """Wait until this replica has what its primary has written so far."""
        written = int(primary.info("replication")["master_repl_offset"])
        wait_until(lambda: self._has(written), f"{self.address} is in step", timeout)

    def _has(self, written: int) -> bool:
        return self.is_linked() and int(self.info("replication")["slave_repl_offset"]) >= written

    def wait_linked(self, timeout: float = 10.0) -> None:
        """Wait until this replica's link to its primary is up and the first copy is made."""
        wait_until(
            self.is_linked,
            f"the replica {self.address} is linked to its primary",
            timeout,
        )

    def replica_lines(self) -> dict[str, str]:
        """Tell the configuration of a replica of this server."""
        lines = {"replicaof": f"{self.host} {self.port}"}
        if self._admin_password is not None:
            lines["masterauth"] = quoted(self._admin_password)
        if self._certificates is not None:
            lines["tls-replication"] = "yes"
            lines["tls-ca-cert-file"] = quoted(str(self._certificates.ca_path))
        return lines

    def _listening(self) -> dict[str, str]:
        if self._certificates is None:
            return {"port": str(self.port)}
        return {
            "port": "0",
            "tls-port": str(self.port),
            "tls-cert-file": quoted(str(self._certificates.certificate_path)),
            "tls-key-file": quoted(str(self._certificates.key_path)),
            "tls-ca-cert-file": quoted(str(self._certificates.ca_path)),
            "tls-auth-clients": "yes" if self._mutual else "no",
        }
