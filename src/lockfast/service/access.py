"""Decides by the headers of a request whether it may connect.

A browser that shows a page of an attacker sends `Origin` with every WebSocket. It may leave
`Origin` out of other requests if the attacker has given the page's domain the address 127.0.0.1
(DNS rebinding). Then `Host` is that domain. A page does not have an API key, so `Host` is compared
only if none is needed. It may then be any name under which a proxy or another machine knows this
one.
"""

from __future__ import annotations

from collections.abc import Iterable

from lockfast.loopback import is_loopback, without_port

Headers = Iterable[tuple[bytes, bytes]]


def allowed(headers: Headers, *, keyed: bool = False) -> bool:
    """Return whether a request does not come from a page in a browser. `keyed`: whether clients
    need an API key, which `values` returns.
    """
    found = [(name.lower(), value) for name, value in headers]
    if values(found, b"origin"):
        return False
    hosts = values(found, b"host")
    return len(hosts) == 1 and (keyed or is_loopback(without_port(hosts[0].decode("latin-1"))))


def values(headers: Headers, wanted: bytes) -> list[bytes]:
    """Return the values of all headers of a name."""
    return [value for name, value in headers if name.lower() == wanted]
