"""Checks of hosts: which are this machine, and what crosses a network unprotected."""

from __future__ import annotations

import ipaddress
import ssl

from lockfast.guarantees import Finding
from lockfast.url import Target


def is_local(host: str) -> bool:
    """Return whether a host is this machine: a Unix socket, or a loopback address."""
    if host in {"", "localhost"} or host.startswith(("/", "@")):
        return True
    return not is_name(host) and ipaddress.ip_address(host).is_loopback


def is_name(host: str) -> bool:
    """Return whether a host is a name that must be resolved, not an address or a Unix socket."""
    if not host or host.startswith(("/", "@")):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def unverified(target: Target, context: ssl.SSLContext | None, remedy: str) -> tuple[Finding, ...]:
    """Return a finding if TLS does not check the server's certificate or host name, so that a
    stranger on the network path can pass for the server.
    """
    if context is None or context.check_hostname or all(is_local(host) for host, _ in target.hosts):
        return ()
    what = "certificate" if context.verify_mode == ssl.CERT_NONE else "host name"
    return (
        Finding(
            f"TLS without a check of the server's {what}",
            "anyone on the network path can pass for the server, and read the password",
            remedy,
        ),
    )


def exposed(target: Target, *, encrypted: bool, remedy: str) -> tuple[Finding, ...]:
    """Return a finding if a password crosses a network without TLS."""
    options = {"password_file", "sentinel_password"}
    given = target.password is not None or options & target.options.keys()
    if encrypted or not given or all(is_local(host) for host, _ in target.hosts):
        return ()
    return (
        Finding(
            "a password without TLS",
            "anyone on the network path can read it, and change every reply",
            remedy,
        ),
    )
