"""Refusals over HTTP: problem details (RFC 9457), written by the server, read by the client."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import NamedTuple

from lockfast.errors import StaleToken
from lockfast.guards.mark import Holder, refused, shown

TYPE = "application/problem+json"
_STALE = "urn:lockfast:stale-token"


class Problem(NamedTuple):
    """A whole response."""

    status: HTTPStatus
    headers: list[tuple[str, str]]
    body: bytes


def problem(error: StaleToken) -> Problem:
    """Make the response to a stale token: 412, with the token that stands.

    Both middlewares do this by themselves if the error reaches them. Some frameworks (Flask) turn
    every error into a 500 before that: register this there.
    """
    said = {"name": error.name, "token": str(error.token), "current": str(error.current)}
    return made(HTTPStatus.PRECONDITION_FAILED, _STALE, str(error), said)


def missing(name: str) -> Problem:
    """Make the response to a write without a token: 428."""
    return made(
        HTTPStatus.PRECONDITION_REQUIRED,
        "urn:lockfast:token-required",
        f"writes to {name!r} need the header Fencing-Token, of whoever holds its lock",
        {"name": name},
    )


def malformed(why: str) -> Problem:
    """Make the response to a header that cannot be read, or is of another lock: 400."""
    return made(HTTPStatus.BAD_REQUEST, "urn:lockfast:token-malformed", why, {})


def shared(name: str) -> Problem:
    """Make the response to a write with a reader's token: 403."""
    return made(
        HTTPStatus.FORBIDDEN,
        "urn:lockfast:reader-token",
        f"a reader of {name!r} may not write: acquire its lock for writing",
        {"name": name},
    )


def unknown(name: str) -> Problem:
    """Make the response to a token that `authenticated` or `verify` does not accept: 403."""
    return made(
        HTTPStatus.FORBIDDEN,
        "urn:lockfast:token-not-accepted",
        f"this request may not show a token of {name!r}, or nobody holds that token",
        {"name": name},
    )


def unverified(name: str) -> Problem:
    """Make the response to a token that cannot be verified, since the engine is away: 503."""
    why = f"whether this token of {name!r} is held cannot be verified now"
    return _later("urn:lockfast:unverified", why, name)


def busy(name: str, seconds: float) -> Problem:
    """Make the response to a holder whose predecessor's request is still running: 503."""
    why = f"a request of an earlier holder of {name!r} is still running after {seconds:g} s"
    return _later("urn:lockfast:draining", why, name)


def _later(kind: str, why: str, name: str) -> Problem:
    full = made(HTTPStatus.SERVICE_UNAVAILABLE, kind, why, {"name": name})
    full.headers.append(("Retry-After", "1"))
    return full


def made(status: HTTPStatus, kind: str, detail: str, more: dict[str, str]) -> Problem:
    """Write a response."""
    said = {"type": kind, "title": status.phrase, "status": status, "detail": detail, **more}
    body = json.dumps(said).encode()
    return Problem(status, [("Content-Type", TYPE), ("Content-Length", str(len(body)))], body)


def told(lease: Holder, status: int, kind: str, body: bytes) -> None:
    """Read a response: raise `StaleToken`, after telling the lease, if it refuses that lease.

    A 412 has other reasons too, and other authors: whatever the body is, nothing else is raised. It
    may also be about a lock of the server's own: that says nothing about this lease.
    """
    if status != HTTPStatus.PRECONDITION_FAILED or kind.partition(";")[0].strip() != TYPE:
        return
    try:
        said = json.loads(body)
        at = shown(lease)
        ours = (said["type"], said["name"], said["token"]) == (_STALE, at.name, str(at.token))
        current = int(str(said["current"])) if ours else 0
    except Exception:  # noqa: BLE001  # 100,000 brackets are a RecursionError
        return
    if ours:
        raise refused(lease, current)
