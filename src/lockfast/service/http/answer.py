"""The answer to an HTTP request: its status and body."""

from __future__ import annotations

from http import HTTPStatus
from math import ceil
from typing import NamedTuple

from msgspec import Raw, Struct

from lockfast.engines.remote.messages import Failed, Fault, Reply
from lockfast.service.http.messages import Busy, Problem

RETRY = 1  # seconds after which a client may ask again, if the engine or the replica is not ready
AGAIN = {"retry-after": str(RETRY)}


class Answer(NamedTuple):
    """A status, a body, and headers."""

    status: int
    body: Struct | Raw
    headers: dict[str, str] = {}  # noqa: RUF012  # it is not changed
    waited: float = 0.0
    """Seconds for which the request waited for a lock."""


def problem(status: HTTPStatus, error: str, message: str) -> Answer:
    """Return the answer to a request that failed."""
    headers = AGAIN if status == HTTPStatus.SERVICE_UNAVAILABLE else {}
    return Answer(status, Problem(error, message), headers)


def overrun(why: str, after: float) -> Answer:
    """Return the answer to a request that came too soon after others."""
    headers = {"retry-after": str(max(ceil(after), 1))}
    return Answer(HTTPStatus.TOO_MANY_REQUESTS, Problem("too-many", why), headers)


def failed(fault: Fault) -> Answer:
    """Return the answer to a request that the engine did not carry out."""
    if fault.kind == "kind-mismatch":
        return Answer(HTTPStatus.CONFLICT, Busy("kind-mismatch", fault.why))
    if fault.denied:
        return problem(HTTPStatus.FORBIDDEN, "forbidden", fault.why)
    if fault.after:
        return overrun(fault.why, fault.after)
    if fault.kind == "unavailable":
        return problem(HTTPStatus.SERVICE_UNAVAILABLE, fault.kind, fault.why)
    return problem(HTTPStatus.BAD_GATEWAY, fault.kind, fault.why)


def fault_of(reply: Reply) -> Fault | None:
    """Return why a request with one claim, or with none, has failed."""
    if isinstance(reply, Failed):
        return reply.fault
    faults: list[Fault] = getattr(reply, "faults", [])
    return faults[0] if faults else None


UNAUTHORIZED = Answer(
    HTTPStatus.UNAUTHORIZED,
    Problem("unauthorized", "the service needs an API key"),
    {"www-authenticate": "Bearer"},
)
