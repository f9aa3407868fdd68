"""The requests of the HTTP API. What serves them and what describes them is made of this table."""

from __future__ import annotations

from dataclasses import dataclass, field

from msgspec import Struct

from lockfast.service.http.messages import (
    Acquire,
    Break,
    Broken,
    Busy,
    Granted,
    Guarantees,
    Locks,
    Look,
    Problem,
    Queued,
    Release,
    Released,
    Renew,
    Renewals,
    Sign,
    Signed,
)

OPENAPI = "/openapi.json"
IDEMPOTENCY = "Idempotency-Key"
Reply = tuple[type[Struct], str]
WRONG: dict[int, Reply] = {
    400: (Problem, "The request is malformed, or its handle is no handle."),
    401: (Problem, "The service needs an API key or a token."),
    403: (
        Problem,
        "Not allowed, or another client's handle, or a request from a page in a browser.",
    ),
    408: (Problem, "The body did not come in time."),
    413: (Problem, "The body is too large."),
    429: (Problem, "The client is over a limit. Ask again after the seconds of Retry-After."),
    500: (Problem, "An error in the service, which is in its log."),
    502: (Problem, "The engine refused the request."),
    503: (Problem, "The engine does not answer, or the replica is about to end. Ask again."),
}
OTHER_KIND: Reply = (Problem, "The name is in use as another kind of lock.")


@dataclass(frozen=True, slots=True)
class Route:
    """One request."""

    method: str
    path: str
    name: str
    summary: str
    replies: dict[int, Reply]
    body: type[Struct] | None = None
    query: type[Struct] | None = None
    headers: dict[str, str] = field(default_factory=dict)


ROUTES = (
    Route(
        "POST",
        "/v1/acquire",
        "acquire",
        "Acquire a lock, or go on waiting for it.",
        {
            200: (Granted, "The client holds the lock."),
            202: (Queued, "The client is in the queue, and asks again with the handle."),
            409: (Busy, "Another client holds the lock, or it is in use as another kind."),
            410: (Problem, "The claim has ended. Acquire the lock again."),
        },
        body=Acquire,
        headers={
            IDEMPOTENCY: "1 to 255 visible characters, new for each acquisition. A request that is "
            "sent again with the same one finds the claim of the first one.",
        },
    ),
    Route(
        "POST",
        "/v1/renew",
        "renew",
        "Renew leases, and places in queues.",
        {200: (Renewals, "What became of each handle."), 409: OTHER_KIND},
        body=Renew,
    ),
    Route(
        "POST",
        "/v1/sign",
        "sign",
        "Get a signed token of a lock that is held. It renews the lease too.",
        {
            200: (Signed, "The signed token."),
            404: (Problem, "The service signs no tokens."),
            409: (Problem, "There is no token: the client waits, has a permit, or another kind."),
            410: (Problem, "The lease has ended. Acquire the lock again."),
        },
        body=Sign,
    ),
    Route(
        "POST",
        "/v1/release",
        "release",
        "Release a lock, or leave its queue.",
        {200: (Released, "The handle has no lock any more."), 409: OTHER_KIND},
        body=Release,
    ),
    Route(
        "GET",
        "/v1/locks",
        "locks",
        "List holders and waiters.",
        {200: (Locks, "A page.")},
        query=Look,
    ),
    Route(
        "POST",
        "/v1/break",
        "break",
        "Take a lock away from its holder.",
        {200: (Broken, "The claim is not there any more."), 409: OTHER_KIND},
        body=Break,
    ),
    Route(
        "GET",
        "/v1/guarantees",
        "guarantees",
        "Read what the engine guarantees.",
        {200: (Guarantees, "The guarantees of the engine in its present setup.")},
    ),
)
BY_PATH = {route.path: route for route in ROUTES}
