"""The address of a database and the login for it, read from a URL for libpq."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

from psycopg.conninfo import make_conninfo

from lockfast.engines.hosts import is_local
from lockfast.url import Target

LIBPQ = (
    "application_name",
    "channel_binding",
    "dbname",
    "gssencmode",
    "host",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "options",
    "passfile",
    "password",
    "port",
    "require_auth",
    "service",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslpassword",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
)
"""The options of libpq that a URL may contain, beside our own."""


Place = tuple[str, str, str]
"""Host, port, and the address that was looked up for it; as text, and each may be empty."""


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """One database, on one or several hosts."""

    hosts: tuple[tuple[str, str], ...]
    """Host and port, as text; a host may be empty, or the folder of a socket."""
    words: dict[str, str] = field(repr=False)

    @staticmethod
    def of(target: Target) -> Address:
        """Return the address that a URL names."""
        words = {word: text for word, text in target.options.items() if word in LIBPQ}
        hosts = tuple((host, str(port or "")) for host, port in target.hosts)
        if "host" in words or not hosts:
            hosts = tuple((h, "") for h in words.pop("host", "").split(","))
        if "port" in words:
            port = words.pop("port")
            hosts = tuple((host, port) for host, _ in hosts)
        login = (("user", target.username), ("password", target.password))
        words |= {word: text for word, text in login if text is not None}
        if len(target.path) > 1:
            words["dbname"] = target.path[1:]
        words.setdefault("application_name", "lockfast")
        if len(hosts) > 1:  # a standby cannot grant
            words.setdefault("target_session_attrs", "read-write")
        return Address(hosts, words)

    def __str__(self) -> str:
        """Return the hosts and the database, without the password."""
        hosts = ",".join(f"{host}:{port}" if port else host for host, port in self.hosts)
        return f"{hosts or 'localhost'}/{self.words.get('dbname', '')}"

    def shown(self, host: str, port: str) -> str:
        """Return one of the hosts and the database, without the password."""
        return str(Address(((host, port),), self.words))

    @property
    def unverified(self) -> str | None:
        """Return the sslmode, if it lets another machine on the network path pass for the server.
        None if it does not, or if all hosts are this machine.
        """
        default = "verify-full" if self.words.get("sslrootcert") == "system" else "prefer"
        mode = self.words.get("sslmode") or os.environ.get("PGSSLMODE") or default
        if mode == "verify-full" or all(is_local(host) for host, _ in self.hosts):
            return None
        return mode

    @property
    def conninfo(self) -> str:
        """Return libpq's connection string, with host names that are not looked up."""
        return self.resolved([(host, port, "") for host, port in self.hosts])

    def resolved(self, hosts: list[Place]) -> str:
        """Return libpq's connection string with addresses that were looked up, because libpq blocks
        while it looks them up itself.
        """
        where = {
            "host": ",".join(host for host, _, _ in hosts),
            "port": ",".join(port for _, port, _ in hosts),
            "hostaddr": ",".join(found for _, _, found in hosts),
        }
        return make_conninfo(
            "", **self.words, **{word: text for word, text in where.items() if text.strip(",")}
        )
