"""The address of the service and the login for it, read from a URL."""

from __future__ import annotations

import ssl
from contextlib import suppress
from dataclasses import dataclass, field

from lockfast.engines import tls as files
from lockfast.engines.hosts import exposed
from lockfast.engines.remote.messages import LONGEST_DEPARTURE
from lockfast.guarantees import Finding
from lockfast.url import Secret, Target

OPTIONS = ("on_disconnect", "password_file", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
"""The options that a URL may have."""
FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
PORT = 7420
SHORTEST_DEPARTURE = 1.0  # seconds
CONNECT = "/v1/connect"


@dataclass(frozen=True, slots=True)
class Place:
    """One replica of a URL, or a load balancer in front of some."""

    host: str
    port: int

    def __str__(self) -> str:
        """Return it for messages."""
        return f"the service at {self.host}:{self.port}"


@dataclass(frozen=True, slots=True, eq=False)
class Address:
    """The replicas of one service."""

    places: tuple[Place, ...]
    path: str
    secret: Secret = field(repr=False)
    """Returns the API key."""
    tls: files.Tls[ssl.SSLContext] | None = field(repr=False)
    findings: tuple[Finding, ...] = ()
    """What is unsafe about the URL."""
    on_disconnect: float = 0.0
    """Seconds after the end of a connection at which its claims end. 0: they end with their ttl."""

    def __str__(self) -> str:
        """Return it for messages."""
        return " or ".join(map(str, self.places))


def address_of(target: Target) -> Address:
    """Return the address in a URL."""
    options = target.take(*OPTIONS)
    if target.username:
        raise ValueError(
            f"{target.scheme}:// has no user names: write the API key as the password, as in "
            f"{target.scheme}://:KEY@host, or use password_file"
        )
    secure = target.scheme == "lockfasts"
    hosts = target.hosts or (("localhost", None),)
    return Address(
        places=tuple(Place(host or "localhost", port or PORT) for host, port in hosts),
        path=target.path.rstrip("/") + CONNECT,
        secret=target.secret(),
        tls=files.Tls(options, FILES, lambda: files.tls_context(options, *FILES, None))
        if secure
        else None,
        findings=exposed(target, encrypted=secure, remedy="use lockfasts://"),
        on_disconnect=_departure(options.get("on_disconnect")),
    )


def _departure(written: str | None) -> float:
    """Return the option `on_disconnect`."""
    if written is None:
        return 0.0
    with suppress(ValueError):
        if SHORTEST_DEPARTURE <= (seconds := float(written)) <= LONGEST_DEPARTURE:
            return seconds
    raise ValueError(
        f"on_disconnect must be {SHORTEST_DEPARTURE:g} to {LONGEST_DEPARTURE:g} seconds, not "
        f"{written!r}"
    )
