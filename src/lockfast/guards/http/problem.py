"""The error responses of the HTTP guard, as problem details (RFC 9457): writing and reading."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import NamedTuple

from lockfast.errors import StaleToken
from lockfast.guards.mark import Holder, refused, shown

TYPE = "application/problem+json"
_STALE = "urn:lockfast:stale-token"


class Problem(NamedTuple):
    """A complete HTTP response."""

    status: HTTPStatus
    """The status code."""
    headers: list[tuple[str, str]]
    """Pairs of a header's name and value."""
    body: bytes
    """The body, in JSON."""


def problem(error: StaleToken) -> Problem:
    """Return the response to a stale token: 412, with the token of the mark.

    Both middlewares send it if the error reaches them. Some frameworks, such as Flask, turn every
    exception into a 500 before that. Register an error handler there that returns this response.

    Args:
        error: What a guard raised in the handler.

    Returns:
        The status, the headers and the body to send.
    """
    said = {"name": error.name, "token": str(error.token), "current": str(error.current)}
    return made(HTTPStatus.PRECONDITION_FAILED, _STALE, str(error), said)


def missing(name: str) -> Problem:
    """Return the response to a write without a token: 428."""
    return made(
        HTTPStatus.PRECONDITION_REQUIRED,
        "urn:lockfast:token-required",
        f"a write to {name!r} needs the header Fencing-Token of the holder of its lock",
        {"name": name},
    )


def malformed(why: str) -> Problem:
    """Return the response to a header that is malformed, or is of another lock: 400."""
    return made(HTTPStatus.BAD_REQUEST, "urn:lockfast:token-malformed", why, {})


def shared(name: str) -> Problem:
    """Return the response to a write with a reader's token: 403."""
    return _forbidden(
        "urn:lockfast:reader-token",
        f"a reader of {name!r} may not write: acquire its lock for writing",
        name,
    )


def unknown(name: str) -> Problem:
    """Return the response to a token that `authenticated` or `verify` does not accept: 403."""
    return _forbidden(
        "urn:lockfast:token-not-accepted",
        f"this request may not use a token of {name!r}, or no process holds that token",
        name,
    )


def unproven(name: str) -> Problem:
    """Return the response to a token without a valid signature of the service: 403."""
    return _forbidden(
        "urn:lockfast:token-not-signed",
        f"a request for {name!r} needs a token that the lock service has signed for this server",
        name,
    )


def unverified(name: str) -> Problem:
    """Return the response to a token that `verify` cannot check, for lack of the engine: 503."""
    why = f"the service cannot verify the token of {name!r} now"
    return _later("urn:lockfast:unverified", why, name)


def busy(name: str, seconds: float) -> Problem:
    """Return the response to a holder while a request of an earlier holder still runs: 503."""
    why = f"a request of an earlier holder of {name!r} is still running after {seconds:g} s"
    return _later("urn:lockfast:draining", why, name)


def _forbidden(kind: str, why: str, name: str) -> Problem:
    return made(HTTPStatus.FORBIDDEN, kind, why, {"name": name})


def _later(kind: str, why: str, name: str) -> Problem:
    full = made(HTTPStatus.SERVICE_UNAVAILABLE, kind, why, {"name": name})
    full.headers.append(("Retry-After", "1"))
    return full


def made(status: HTTPStatus, kind: str, detail: str, more: dict[str, str]) -> Problem:
    """Return a response with problem details. `more` are additional members of the JSON."""
    said = {"type": kind, "title": status.phrase, "status": status, "detail": detail, **more}
    body = json.dumps(said).encode()
    return Problem(status, [("Content-Type", TYPE), ("Content-Length", str(len(body)))], body)


def told(lease: Holder, status: int, kind: str, body: bytes) -> None:
    """Mark the lease as LOST and raise `StaleToken`, if a response rejects its token.

    A 412 can have other causes, and any server can send one. So a body of any other content raises
    nothing. A stale token of another lock, for example one of the server's own, says nothing about
    this lease.
    """
    if status != HTTPStatus.PRECONDITION_FAILED or kind.partition(";")[0].strip() != TYPE:
        return
    try:
        said = json.loads(body)
        at = shown(lease)
        ours = (said["type"], said["name"], said["token"]) == (_STALE, at.name, str(at.token))
        current = int(str(said["current"])) if ours else 0
    except Exception:  # noqa: BLE001  # 100,000 brackets raise a RecursionError
        return
    if ours:
        raise refused(lease, current)
