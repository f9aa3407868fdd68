"""Hosts: which of them are this machine, and whether a password crosses a network in clear."""

from __future__ import annotations

import ipaddress

from lockfast.guarantees import Finding
from lockfast.url import Target


def is_local(host: str) -> bool:
    """Return whether a host is this machine: a socket in a folder, or a loopback address."""
    if host in {"", "localhost"} or host.startswith(("/", "@")):
        return True
    return not is_name(host) and ipaddress.ip_address(host).is_loopback


def is_name(host: str) -> bool:
    """Return whether a host has to be looked up."""
    if not host or host.startswith(("/", "@")):
        return False
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return True
    return False


def exposed(target: Target, *, encrypted: bool, remedy: str) -> tuple[Finding, ...]:
    """Report a password that crosses a network without TLS."""
    given = target.password is not None or "password_file" in target.options
    if encrypted or not given or all(is_local(host) for host, _ in target.hosts):
        return ()
    return (
        Finding(
            "a password without TLS",
            "anyone on the network path can read it, and change every reply",
            remedy,
        ),
    )
