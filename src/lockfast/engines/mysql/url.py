"""The address of a database and the login for it, read from a URL."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial

from lockfast.engines import tls as files
from lockfast.engines.hosts import is_local
from lockfast.url import Secret, Target

OPTIONS = (
    "password_file",
    "ssl_ca",
    "ssl_cert",
    "ssl_key",
    "ssl_mode",
    "token_base",
    "unix_socket",
)
"""The options that a URL may have. The `ssl_` options have the names of the server's own client."""
FILES = ("ssl_ca", "ssl_cert", "ssl_key")
PORT = 3306
DATABASE = "lockfast"


class Mode(Enum):
    """The values of `ssl_mode`."""

    DISABLED = "disabled"
    PREFERRED = "preferred"
    REQUIRED = "required"
    VERIFY_CA = "verify_ca"
    VERIFY_IDENTITY = "verify_identity"


@dataclass(frozen=True, slots=True)
class Place:
    """One server of a URL."""

    host: str
    """A name or an address, or the path of a Unix socket."""
    port: int

    def __str__(self) -> str:
        """Return it for messages."""
        return self.host if self.host.startswith("/") else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """One database, on one or several servers of which one is the primary."""

    places: tuple[Place, ...]
    user: str
    database: str
    secret: Secret = field(repr=False)
    mode: Mode | None
    """The `ssl_mode` of the URL. None: each host has its own default."""
    context: Callable[[Mode], ssl.SSLContext]
    """Returns the TLS context of a new connection."""

    @staticmethod
    def of(target: Target) -> Address:
        """Return the address that a URL names. Raise `ValueError` if it cannot be one."""
        scheme, plus, _ = target.scheme.partition("+")
        if plus:
            raise ValueError(
                f"{target.scheme}:// names a driver, as URLs of SQLAlchemy do, and lockfast uses "
                f"none: write {scheme}://"
            )
        options = target.take(*OPTIONS)
        socket = options.get("unix_socket")
        if socket is not None and target.hosts:
            raise ValueError(
                f"{target.scheme}:// has a host and a unix_socket: remove one of them, as in "
                f"{target.scheme}://USER@/DATABASE?unix_socket=/run/mysqld/mysqld.sock"
            )
        if socket is not None and not socket.startswith("/"):
            raise ValueError("unix_socket must be the whole path of a socket")
        hosts = target.hosts or (("localhost", None),)
        places = [Place(host, port or PORT) for host, port in hosts]
        database = target.path.removeprefix("/") or DATABASE
        if "/" in database or "\0" in database or len(database) > 64:  # noqa: PLR2004  # the server's limit
            raise ValueError(
                f"{target.scheme}:// has one database behind its hosts, with a name of at most 64 "
                f"characters: {target.scheme}://HOST/DATABASE"
            )
        if target.username is None:
            raise ValueError(f"{target.scheme}:// needs a user: {target.scheme}://USER@HOST")
        mode, named = _mode(options.get("ssl_mode")), any(name in options for name in FILES)
        if mode is Mode.DISABLED and named:
            raise ValueError("ssl_mode=disabled does not encrypt: remove ssl_ca, ssl_cert, ssl_key")
        if mode is None and named:
            mode = Mode.VERIFY_IDENTITY
        contexts = _Contexts(options)
        if named:
            contexts.of(mode or Mode.VERIFY_IDENTITY)  # a wrong file is an error now
        return Address(
            (Place(socket, 0),) if socket is not None else tuple(places),
            target.username,
            database,
            target.secret(),
            mode,
            contexts.of,
        )

    def mode_at(self, host: str) -> Mode:
        """Return how a connection to a host is protected.

        On this machine nobody is between the client and the server, and a server that was just
        installed has a certificate that nobody vouches for.
        """
        if host.startswith("/"):
            return Mode.DISABLED
        if self.mode is not None:
            return self.mode
        return Mode.PREFERRED if is_local(host) else Mode.VERIFY_IDENTITY

    @property
    def unverified(self) -> Mode | None:
        """Return the mode, if it lets another machine on the network path pass for the server. None
        if it does not, or if all servers are on this machine.
        """
        modes = [self.mode_at(place.host) for place in self.places if not is_local(place.host)]
        return next((mode for mode in modes if mode is not Mode.VERIFY_IDENTITY), None)

    def at(self, place: Place) -> str:
        """Return one server and the database for messages. An installation names no database."""
        if not self.database:
            return str(place)
        # Behind the path of a socket, a slash would make the database a part of the path.
        return f"{place}{' database ' if place.host.startswith('/') else '/'}{self.database}"


class _Contexts:
    """The TLS contexts of a URL, one for each mode. Each is made when it is needed, because that
    reads all certificates of the system.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self._options = options
        self._made: dict[Mode, files.Tls[ssl.SSLContext]] = {}

    def of(self, mode: Mode) -> ssl.SSLContext:
        found = self._made.get(mode)
        if found is None:
            made = files.Tls(self._options, FILES, partial(self._make, mode))
            found = self._made[mode] = made
        return found.current()

    def _make(self, mode: Mode) -> ssl.SSLContext:
        context = files.tls_context(self._options, *FILES, None)
        if mode is not Mode.VERIFY_IDENTITY:
            context.check_hostname = False
        if mode in {Mode.PREFERRED, Mode.REQUIRED}:
            context.verify_mode = ssl.CERT_NONE
        return context


def _mode(text: str | None) -> Mode | None:
    if text is None:
        return None
    try:
        return Mode(text.lower())
    except ValueError:
        known = ", ".join(mode.value for mode in Mode)
        raise ValueError(f"ssl_mode must be one of {known}") from None
