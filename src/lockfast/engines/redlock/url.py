"""Reads Redlock URLs: the nodes, the login and the token base."""

from __future__ import annotations

from lockfast.engines.options import base_of
from lockfast.engines.redis.transport import Address
from lockfast.engines.redis.url import OPTIONS, tls_of
from lockfast.engines.redlock.transport import Introduction
from lockfast.url import Target

KNOWN = tuple(option for option in OPTIONS if option != "sentinel_password")


def read(target: Target) -> tuple[list[Address], Introduction, int]:
    """Return the nodes, the login and the token base of a URL."""
    options = target.take(*KNOWN)
    base = base_of(options)
    number = options.get("db", target.path.removeprefix("/")) or "0"
    if not number.isdigit():
        raise ValueError(f"{target.scheme}:// has no database {number!r}")
    nodes = [Address(host, port or 6379) for host, port in target.hosts]
    if not nodes or len(set(nodes)) < len(nodes):
        raise ValueError("name each node once: redlock://h1,h2,h3,h4,h5")
    login = Introduction(
        username=target.username,
        secret=target.secret(),
        database=int(number),
        tls=tls_of(options) if target.scheme == "redlocks" else None,
    )
    return nodes, login, base
