"""What goes over the wire: which of our requests a fault is for."""

from __future__ import annotations

from lockfast.engines.redis.scripts import CLAIM, RENEW, RESIGN, Script
from tests.servers import Proxy


def via(proxy: Proxy) -> str:
    """Give the URL of the server behind a proxy."""
    return f"redis://{proxy.address}"


def _runs(script: Script, request: bytes) -> bool:
    return script.sha.encode() in request or script.source in request


def is_claim(request: bytes) -> bool:
    """Pick requests to acquire."""
    return _runs(CLAIM, request)


def is_renewal(request: bytes) -> bool:
    """Pick heartbeats."""
    return _runs(RENEW, request)


def is_resignation(request: bytes) -> bool:
    """Pick requests to release."""
    return _runs(RESIGN, request)
