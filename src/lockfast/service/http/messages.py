"""The bodies of HTTP requests and replies: one JSON object each.

The OpenAPI document is made of these types, with their descriptions and bounds. Tickets are texts,
because a program may keep numbers of JSON in a type that rounds them, and compare them wrongly.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from lockfast.engines.remote.messages import AT_ONCE, Audience, Id, Name, Seconds, Text
from lockfast.names import LONGEST as LONGEST_NAME
from lockfast.port import LONGEST, SHARED, SHORTEST

LONGEST_POLL = 60.0  # seconds for which a request for a lock may be held open
LONGEST_HANDLE = 1_024  # characters
LONGEST_KEY = 255  # characters of an `Idempotency-Key`
LONGEST_CURSOR = 8_192
LONGEST_PURPOSE, LONGEST_REASON = 256, 300  # as in `claims.payload` and `claims.break_records`
LARGEST_BODY = 128 * 1_024  # bytes: AT_ONCE handles, with room

Handle = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=LONGEST_HANDLE,
        pattern="^[A-Za-z0-9_-]+$",
        description="Stands for one request for a lock. Only the client that has got it can use "
        "it. It has no meaning for anybody but the service.",
    ),
]
Ticket = Annotated[str, Meta(pattern="^[0-9]{1,16}$", max_length=16)]
Token = Annotated[
    str,
    Meta(
        pattern="^[0-9]{1,16}$",
        max_length=16,
        description="The fencing token, a whole number as a text. Send it to the resource with "
        "each write. It is null for `read` and `semaphore`, which others may hold too.",
    ),
]
Valid = Annotated[
    float,
    Meta(
        ge=0.0,
        le=1e6,
        description="The lease is valid for so many seconds, counted from the moment just before "
        "the client sent this request.",
    ),
]
Kind = Literal["lock", "read", "write", "semaphore"]
LevelName = Literal["efficiency", "fenced", "consensus"]
Words = Literal["lock", "read/write lock", "semaphore"]


class Acquire(Struct, omit_defaults=True):
    """Asks for a lock, by its name and ttl. Or goes on waiting, by the handle of a 202."""

    name: Annotated[Name, Meta(description="The name: 1 to 512 bytes in UTF-8.")] | None = None
    ttl: (
        Annotated[
            float,
            Meta(ge=SHORTEST, le=LONGEST, description="Seconds until the lease ends by itself."),
        ]
        | None
    ) = None
    kind: Kind = "lock"
    capacity: (
        Annotated[int, Meta(ge=1, lt=SHARED, description="For a semaphore: all permits.")] | None
    ) = None
    weight: (
        Annotated[int, Meta(ge=1, lt=SHARED, description="For a semaphore: permits to take.")]
        | None
    ) = None
    purpose: Annotated[
        str, Meta(max_length=LONGEST_PURPOSE, description="Shown to whoever waits.")
    ] = ""
    handle: Handle | None = None
    wait: Annotated[
        float,
        Meta(
            ge=0.0,
            le=LONGEST_POLL,
            description="Seconds for which the reply may wait. 0: the request does not queue.",
        ),
    ] = 0.0


class Holder(Struct):
    """A holder or waiter, as it has described itself."""

    id: Id
    ticket: Ticket
    host: Text
    pid: int
    worker: Text
    service: Text
    purpose: Text
    since: float
    subject: Text
    """Who it is for the service. Empty without API keys."""
    address: Text


class Granted(Struct):
    """The client holds the lock."""

    handle: Handle
    name: Name
    token: Token | None
    ticket: Ticket
    floor: Ticket
    """The ticket of the oldest live claim on the name. The holder of a shared lock sends it."""
    left: Seconds
    """Seconds of the lease that were left when the engine answered."""
    valid: Valid


class Queued(Struct):
    """The client waits in the queue. It keeps its place for `left` seconds without a request."""

    handle: Handle
    name: Name
    ticket: Ticket
    ahead: int
    left: Seconds
    holder: Holder | None


class Busy(Struct):
    """Another client holds the lock, and this request does not wait."""

    error: Literal["busy", "kind-mismatch"]
    message: Text
    holder: Holder | None = None


class Problem(Struct):
    """Why a request failed."""

    error: Annotated[str, Meta(max_length=32)]
    message: Text


class Renew(Struct, omit_defaults=True):
    """Extends leases, and places in a queue, to their ttl."""

    handles: Annotated[list[Handle], Meta(max_length=AT_ONCE)] = []
    handle: Handle | None = None
    """One more, so that the reply to `acquire` can be sent as it is."""


class Renewed(Struct, omit_defaults=True):
    """What became of one handle."""

    state: Literal["held", "waiting", "gone", "failed"]
    left: Seconds = 0.0
    valid: Valid = 0.0
    token: Token | None = None
    message: Text = ""


class Renewals(Struct):
    """What became of the handles, in their order."""

    results: list[Renewed]


class Sign(Struct):
    """Asks for a signed token of a lock that is held."""

    handle: Handle
    audience: Annotated[
        Audience,
        Meta(description="Whom the token is for: the resource that verifies it, such as its URL."),
    ]


class Signed(Struct):
    """A signed token."""

    signed: Annotated[
        str,
        Meta(
            max_length=8_192,
            description="A JSON Web Signature. Send it to the resource with each write.",
        ),
    ]


class Release(Struct):
    """Releases a lock, or leaves its queue."""

    handle: Handle


class Released(Struct):
    """The lock is not held any more by this handle."""

    held: bool
    """Whether this request has ended a lease or a wait. False: it had ended before."""


class Break(Struct):
    """Takes a lock away from its holder, or removes a waiter."""

    name: Name
    id: Id
    reason: Annotated[str, Meta(min_length=1, max_length=LONGEST_REASON)]


class Broken(Struct):
    """What a break has done."""

    broken: bool
    """Whether this request has removed the claim. False: it was not there."""


class Look(Struct, omit_defaults=True):
    """Which locks a page shows."""

    name: Annotated[str, Meta(max_length=LONGEST_NAME, description="Of one lock.")] | None = None
    prefix: Annotated[
        str, Meta(max_length=LONGEST_NAME, description="The beginning of the names.")
    ] = ""
    cursor: (
        Annotated[
            str, Meta(max_length=LONGEST_CURSOR, description="That of the page before this one.")
        ]
        | None
    ) = None


class Listed(Holder):
    """A holder or waiter in a page."""

    name: Name
    granted: bool
    left: Seconds
    kind: Words
    capacity: int
    weight: int


class Locks(Struct):
    """A page of holders and waiters."""

    locks: list[Listed]
    cursor: str | None
    """That of the next page. Null: this is the last one."""


class Finding(Struct):
    """A setting of the engine's server that weakens a guarantee."""

    setting: Text
    risk: Text
    remedy: Text


class Guarantees(Struct):
    """What the engine guarantees in its present setup."""

    engine: Text
    level: LevelName
    promise: Text
    best: LevelName
    findings: list[Finding]


encode = msgspec.json.Encoder().encode
