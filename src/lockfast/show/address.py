"""The address of an engine without its secrets."""

from __future__ import annotations

from lockfast.url import Target


def named(target: Target) -> str:
    """Return the scheme and the hosts of an engine's URL."""
    hosts = ",".join(host if port is None else f"{host}:{port}" for host, port in target.hosts)
    return f"{target.scheme}://{hosts}"
