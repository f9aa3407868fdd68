"""Translation between the locks of HTTP requests and the claims of the engine."""

from __future__ import annotations

import json
import time

from lockfast.claims import payload
from lockfast.core.validity import DRIFT
from lockfast.engines.remote.messages import Asked, Blocking, Listed, Stood
from lockfast.guarantees import Level
from lockfast.port import SHARED, Kind, Shape
from lockfast.service.http import messages
from lockfast.service.http.messages import Acquire, Holder
from lockfast.service.requests import shape_of

WORKER = "http"
KINDS = {
    "lock": (Kind.LOCK, 1, 1),
    "read": (Kind.READ_WRITE, SHARED, 1),
    "write": (Kind.READ_WRITE, SHARED, SHARED),
}


class BadRequest(ValueError):
    """A request that cannot be. Its text is safe to be shown."""


def shape(request: Acquire) -> Shape:
    """Return what a request asks for. Raise `BadRequest` if there can be no such lock."""
    if request.name is None or request.ttl is None:
        raise BadRequest("a request for a lock needs name and ttl, or the handle of a 202")
    if request.kind in KINDS:
        kind, capacity, weight = KINDS[request.kind]
        if request.capacity is not None or request.weight is not None:
            raise BadRequest("capacity and weight are for the kind semaphore")
    elif request.capacity is None:
        raise BadRequest("a semaphore needs its capacity")
    else:
        kind, capacity, weight = Kind.SEMAPHORE, request.capacity, request.weight or 1
    try:
        return shape_of(request.name, request.ttl, kind, capacity, weight)
    except ValueError as error:
        raise BadRequest(str(error)) from None


def described(request: Acquire, subject: str, address: str) -> bytes:
    """Return the payload of a claim. The service itself says whose it is and where it comes from,
    as far as it knows. It knows no process, and no thread.
    """
    said = {
        "host": address[: payload.LONGEST_HOST],
        "worker": WORKER,
        "service": subject[: payload.LONGEST_SERVICE],
        "purpose": request.purpose,
        "since": int(time.time()),
        "ttl": request.ttl,
    }
    return json.dumps({key: value for key, value in said.items() if value}).encode()


def holder(found: Blocking | Listed) -> Holder:
    """Return a claim as its owner has described itself."""
    who = payload.read(found.payload)
    return Holder(
        id=found.id,
        ticket=str(found.ticket),
        host=who.host,
        pid=who.pid,
        worker=who.worker,
        service=who.service,
        purpose=who.purpose,
        since=who.since,
        subject=who.subject,
        address=who.address,
    )


def listed(found: Listed) -> messages.Listed:
    """Return a claim of a page."""
    who = holder(found)
    return messages.Listed(
        **{field: getattr(who, field) for field in who.__struct_fields__},
        name=found.name,
        granted=found.granted,
        left=found.left,
        kind=_words(Kind(found.kind)),
        capacity=found.capacity,
        weight=found.weight,
    )


def _words(kind: Kind) -> messages.Words:
    if kind is Kind.LOCK:
        return "lock"
    return "semaphore" if kind is Kind.SEMAPHORE else "read/write lock"


def exclusive(asked: Asked) -> bool:
    """Return whether a grant of this claim excludes all others, so that its ticket is a token."""
    return asked.kind != Kind.SEMAPHORE and asked.weight == asked.capacity


def is_same(stood: Stood, ticket: int, granted: bool) -> bool:  # noqa: FBT001  # a value
    """Return whether a standing is that of the claim in a handle. A lease never changes its ticket.
    If it has, the id was used for another claim after this one had ended.
    """
    return stood.ticket == ticket or not granted


def valid(seconds: float) -> float:
    """Return for how long a client may rely on what the engine's clock counts as `seconds`."""
    return seconds * (1.0 - DRIFT)


def named(level: Level) -> messages.LevelName:
    """Return the name of a level."""
    if level is Level.CONSENSUS:
        return "consensus"
    return "fenced" if level is Level.FENCED else "efficiency"
