"""What goes over the wire: which of our requests a fault is for."""

from __future__ import annotations

from lockfast.engines.redis.scripts import CLAIM, CLAIMS, RENEW, RESIGN, RESIGNS, Script
from tests.servers import Proxy


def via(proxy: Proxy) -> str:
    """Give the URL of the server behind a proxy."""
    return f"redis://{proxy.address}"


def _runs(request: bytes, *scripts: Script) -> bool:
    return any(each.sha.encode() in request or each.source in request for each in scripts)


def is_claim(request: bytes) -> bool:
    """Pick requests to acquire."""
    return _runs(request, CLAIM, CLAIMS)


def is_renewal(request: bytes) -> bool:
    """Pick heartbeats."""
    return _runs(request, RENEW)


def is_resignation(request: bytes) -> bool:
    """Pick requests to release."""
    return _runs(request, RESIGN, RESIGNS)
