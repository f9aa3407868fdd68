"""Reads Redis URLs: the servers, the login, the TLS settings and the topology."""

from __future__ import annotations

import ssl
from collections.abc import Callable

from lockfast.engines import tls as files
from lockfast.engines.hosts import exposed, unverified
from lockfast.engines.redis.topology import Cluster, Sentinels, Standalone, Topology
from lockfast.engines.redis.transport import Address, Login
from lockfast.guarantees import Finding
from lockfast.url import Target

OPTIONS = (
    "db",
    "password_file",
    "sentinel_password",
    "ssl_ca_certs",
    "ssl_cert_reqs",
    "ssl_certfile",
    "ssl_check_hostname",
    "ssl_keyfile",
    "token_base",
)
"""The options that a URL may have. `db` and the `ssl_` options have redis-py's names."""
FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")


def login_of(target: Target, options: dict[str, str]) -> tuple[str, Login]:
    """Return the name of the primary, which is empty without Sentinel, and the login."""
    scheme, _, kind = target.scheme.partition("+")
    first, _, rest = target.path.removeprefix("/").partition("/")
    name, number = (first, rest) if kind == "sentinel" else ("", first)
    number = options.get("db", number) or "0"
    if not number.isdigit() or (kind == "cluster" and number != "0"):
        only = "only database 0" if kind == "cluster" else "numbers as databases, such as 0"
        raise ValueError(f"{target.scheme}:// has no database {number!r}. It has {only}")
    return name, Login(
        username=target.username,
        secret=target.secret(),
        database=int(number),
        sentinel_password=options.get("sentinel_password"),
        tls=tls_of(options) if scheme in ("rediss", "valkeys") else None,
    )


def tls_of(options: dict[str, str]) -> files.Tls[ssl.SSLContext]:
    """Return the source of the TLS context of each new connection."""
    return files.Tls(options, FILES, lambda: tls_context(options))


def tls_context(options: dict[str, str]) -> ssl.SSLContext:
    """Return a TLS context with the settings of a URL's options."""
    context = files.tls_context(options, *FILES, None)
    if options.get("ssl_cert_reqs") == "none":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options.get("ssl_check_hostname", "").lower() in ("false", "0", "no"):
        context.check_hostname = False
    return context


def weaknesses(target: Target, context: ssl.SSLContext | None) -> tuple[Finding, ...]:
    """Return findings about unprotected connections to the servers."""
    return (
        *exposed(target, encrypted=context is not None, remedy=f"use {target.secure}://"),
        *unverified(target, context, "remove ssl_cert_reqs and ssl_check_hostname from the URL"),
    )


def topology_of(target: Target, name: str) -> Callable[[], Topology]:
    """Return a function that makes the topology: one server, Sentinel or Cluster."""
    kind = target.scheme.partition("+")[2]
    hosts = target.hosts or (("localhost", None),)
    if kind == "sentinel":
        if not name:
            raise ValueError("name the primary: redis+sentinel://host1,host2,host3/NAME")
        sentinels = [Address(host, port or 26379, sentinel=True) for host, port in hosts]
        return lambda: Sentinels(sentinels, name)
    nodes = [Address(host, port or 6379) for host, port in hosts]
    if kind == "cluster":
        return lambda: Cluster(nodes)
    if kind or len(nodes) != 1:
        raise ValueError(
            f"{target.scheme}:// with {len(nodes)} hosts: write redis+sentinel:// or "
            "redis+cluster:// for several servers"
        )
    return lambda: Standalone(nodes[0])
