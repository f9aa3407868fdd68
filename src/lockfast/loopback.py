"""Which hosts are this machine, and cannot be reached from another one."""

from __future__ import annotations

from ipaddress import ip_address


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, and no other machine can connect to it."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def without_port(host: str) -> str:
    """Return the host of a `Host` header or of an authority."""
    if host.startswith("["):  # an IPv6 address
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
