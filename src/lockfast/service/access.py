"""Refuses requests that a browser sends for a web page, by their headers.

While only loopback addresses are served, the danger is a browser on this machine that shows a page
of an attacker. It sends `Origin`, with every WebSocket. It may leave `Origin` out of other requests
if the attacker has given the page's domain the address 127.0.0.1 (DNS rebinding). Then `Host` is
that domain.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address

Headers = Iterable[tuple[bytes, bytes]]


def allowed(headers: Headers) -> bool:
    """Return whether a request does not come from a page in a browser."""
    hosts = []
    for name, value in headers:
        key = name.lower()
        if key == b"origin":
            return False
        if key == b"host":
            hosts.append(value.decode("latin-1"))
    return len(hosts) == 1 and is_loopback(_without_port(hosts[0]))


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, and no other machine can connect to it."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _without_port(host: str) -> str:
    if host.startswith("["):  # an IPv6 address
        return host[1:].partition("]")[0]
    return host.partition(":")[0]
