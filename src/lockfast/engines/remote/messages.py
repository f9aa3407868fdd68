"""The messages between a client and a replica of the service: one JSON object each, tagged by `t`.

Every request has a number, `n`, and its reply has the same one. Replies come in any order. Times
named `not_after` and `now` are seconds of the engine's clock. All others are durations in
seconds. Receivers ignore fields that they do not know, so a later version may add some.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta, Struct

from lockfast.names import LONGEST as LONGEST_NAME
from lockfast.port import LONGEST, RECORD, RECORDS, SHARED, SHORTEST

VERSION = 1
"""The version of the messages. Client and replica must have the same one."""
AT_ONCE = 64  # claims in one message
LARGEST = 2**20  # bytes of a message to a replica
LARGEST_REPLY = 2**26  # bytes of a message to a client: a page of `inspect` has many payloads
PAYLOADS = 2**19  # bytes of the payloads in one message to a replica, unless it is one claim alone
LONGEST_PAYLOAD = 2**16  # bytes of a claim's payload
LONGEST_DEPARTURE = 60.0  # seconds after the end of a connection

# A `$` also matches before a line feed at the end, and an engine counts on the length of an id.
Id = Annotated[str, Meta(pattern="^[0-9a-f]{32}$", max_length=32)]
Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
Number = Annotated[int, Meta(ge=0, lt=2**53)]
Instant = Annotated[float, Meta(gt=-1e11, lt=1e11)]
Seconds = Annotated[float, Meta(ge=0.0, le=1e6)]
Text = Annotated[str, Meta(max_length=4_000)]
Trace = Annotated[str, Meta(pattern="^(00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})?$", max_length=55)]
Audience = Annotated[str, Meta(pattern="^[!-~]+$", min_length=1, max_length=256)]
Payload = Annotated[bytes, Meta(max_length=LONGEST_PAYLOAD)]

T = TypeVar("T")


class Asked(Struct, omit_defaults=True):
    """A claim in a request."""

    id: Id
    name: Name
    ttl: Annotated[float, Meta(ge=SHORTEST, le=LONGEST)]
    kind: Annotated[int, Meta(ge=1, le=3)] = 1
    capacity: Annotated[int, Meta(ge=1, le=SHARED)] = 1
    weight: Annotated[int, Meta(ge=1, le=SHARED)] = 1
    queue: bool = True
    not_after: Instant | None = None
    """The time after which the engine applies no copy of the claim. The client fixes it once."""
    ticket: Number = 0
    granted: bool = False
    payload: Payload = b""
    trace: Trace = ""
    """The span of the client, as W3C's `traceparent`. Renewals have none."""
    on_disconnect: Annotated[float, Meta(ge=0.0, le=LONGEST_DEPARTURE)] = 0.0
    """Seconds after the end of this connection at which the claim ends. 0: it ends with its ttl."""


Asks = Annotated[list[Asked], Meta(min_length=1, max_length=AT_ONCE)]


class Hello(Struct, tag_field="t", tag="hello", omit_defaults=True):
    """The first message of a connection."""

    v: int
    secret: Annotated[str, Meta(min_length=32, max_length=128)]
    """Proves which client this is: see `identity`."""
    epoch: Annotated[int, Meta(ge=1, lt=2**53)]
    """Increases with every connection of the client."""
    hear: bool = False
    """Whether the replica sends `woken` to this connection."""


class Hear(Struct, tag_field="t", tag="hear"):
    """Starts or stops the wakes to this connection. It has no reply."""

    on: bool


class Claim(Struct, tag_field="t", tag="claim"):
    """`Engine.claim_all`. Without `not_after`, a claim is not made, and its result is null."""

    n: Number
    within: Seconds
    asks: Asks


class Renew(Struct, tag_field="t", tag="renew", omit_defaults=True):
    """`Engine.renew`. A replica may collect renewals for 0.1 s, unless they are urgent."""

    n: Number
    within: Seconds
    asks: Asks
    urgent: bool = False


class Resign(Struct, tag_field="t", tag="resign", omit_defaults=True):
    """`Engine.resign`."""

    n: Number
    within: Seconds
    asks: Asks
    doubt: bool = False


class Break(Struct, tag_field="t", tag="break"):
    """Resigns claims of other clients."""

    n: Number
    within: Seconds
    asks: Asks


class Record(Struct, tag_field="t", tag="record"):
    """`Engine.record`."""

    n: Number
    within: Seconds
    name: Name
    id: Id
    record: Annotated[bytes, Meta(max_length=RECORD)]


class Records(Struct, tag_field="t", tag="records"):
    """`Engine.records`."""

    n: Number
    within: Seconds
    name: Name


class Inspect(Struct, tag_field="t", tag="inspect", omit_defaults=True):
    """`Engine.inspect`."""

    n: Number
    names: Annotated[str, Meta(max_length=LONGEST_NAME)]
    cursor: Annotated[str, Meta(max_length=8_192)] | None = None
    exact: bool = False


class Promise(Struct, tag_field="t", tag="guarantees"):
    """`Engine.guarantees`."""

    n: Number
    within: Seconds


class Sign(Struct, tag_field="t", tag="sign"):
    """Asks for a signed token of a claim that was granted. It renews the claim too."""

    n: Number
    within: Seconds
    ask: Asked
    audience: Audience


Request = (
    Hello | Hear | Claim | Renew | Resign | Break | Record | Records | Inspect | Promise | Sign
)


class Welcome(Struct, tag_field="t", tag="welcome", omit_defaults=True):
    """The reply to `hello`."""

    v: int
    client: Annotated[str, Meta(pattern="^[0-9a-f]{22}$", max_length=22)]
    now: Instant | None = None
    """The engine's clock, if the replica knows it."""
    moves: bool = True
    """Whether claims outlive this replica, so that another connection may renew them."""
    on_disconnect: bool = False
    """Whether claims can end with the connection."""
    spread: Seconds | None = None
    """Over how many seconds the replica's clients are to connect again when it ends, each at a
    random moment. None: an earlier version does not say."""


class Blocking(Struct):
    """The claim at the head of the queue."""

    id: Id
    ticket: Number
    payload: Payload


class Stood(Struct, omit_defaults=True):
    """A standing."""

    ticket: Number
    granted: bool = False
    left: Seconds = 0.0
    ahead: Number = 0
    behind: Number = 0
    floor: Number = 0
    blocker: Blocking | None = None
    recheck: Seconds | None = None


class Fault(Struct, omit_defaults=True):
    """Why a request, or one claim of it, has failed."""

    kind: Annotated[str, Meta(max_length=32)]
    """`unavailable`, `refused` or `kind-mismatch`."""
    why: Text
    sent: bool = True
    """For `unavailable`: whether the request may have been applied."""
    asked: Text = ""
    ruling: Text = ""
    """For `kind-mismatch`: the kind that was requested, and that of the claims that exist."""
    at: Number = 0
    """Which claim of the request has failed."""
    after: Seconds = 0.0
    """Seconds until the request may be repeated, if a limit on requests was exceeded, or if the
    replica is overloaded."""
    denied: bool = False
    """For `refused`: whether the client may not do this, by its rights or limits."""


class Said(Struct, tag_field="t", tag="said", omit_defaults=True):
    """The reply to `claim` and `renew`: a standing for each claim, or null if the claim is dead."""

    n: Number
    results: Annotated[list[Stood | None], Meta(max_length=AT_ONCE)]
    now: Instant | None = None
    faults: Annotated[list[Fault], Meta(max_length=AT_ONCE)] = []
    """The claims that have failed. Their place in `results` is null."""
    spread: Seconds | None = None
    """The `spread` of the greeting, if it has changed since."""
    busy: bool = False
    """Whether the replica is overloaded: the client renews less often until a reply says no more
    that it is."""


class Gone(Struct, tag_field="t", tag="gone", omit_defaults=True):
    """The reply to `resign` and `break`: for each claim whether it was there."""

    n: Number
    results: Annotated[list[bool], Meta(max_length=AT_ONCE)]
    faults: Annotated[list[Fault], Meta(max_length=AT_ONCE)] = []


class Done(Struct, tag_field="t", tag="done"):
    """The reply to `record`."""

    n: Number


class Recorded(Struct, tag_field="t", tag="records"):
    """The reply to `records`."""

    n: Number
    records: Annotated[list[Annotated[bytes, Meta(max_length=RECORD)]], Meta(max_length=RECORDS)]


class Listed(Struct, omit_defaults=True):
    """A live claim in a page."""

    name: Name
    id: Id
    ticket: Number
    granted: bool
    left: Seconds
    kind: Annotated[int, Meta(ge=1, le=3)] = 1
    weight: Annotated[int, Meta(ge=1, le=SHARED)] = 1
    capacity: Annotated[int, Meta(ge=1, le=SHARED)] = 1
    payload: Payload = b""


class Page(Struct, tag_field="t", tag="page", omit_defaults=True):
    """The reply to `inspect`."""

    n: Number
    entries: list[Listed]
    cursor: Annotated[str, Meta(max_length=8_192)] | None = None
    others: Annotated[list[Number], Meta(max_length=1_000)] = []


class Found(Struct):
    """A finding of `guarantees`."""

    setting: Text
    risk: Text
    remedy: Text


class Promised(Struct, tag_field="t", tag="guarantees"):
    """The reply to `guarantees`."""

    n: Number
    engine: Text
    level: Annotated[int, Meta(ge=1, le=3)]
    promise: Text
    best: Annotated[int, Meta(ge=1, le=3)]
    findings: Annotated[list[Found], Meta(max_length=100)]


class Signed(Struct, tag_field="t", tag="signed"):
    """The reply to `sign`."""

    n: Number
    token: Annotated[str, Meta(max_length=8_192)]
    """A JSON Web Signature."""


class Failed(Struct, tag_field="t", tag="failed"):
    """The reply to a request that failed as a whole. With `n` 0, the connection ends."""

    n: Number
    fault: Fault


class Woken(Struct, tag_field="t", tag="woken", omit_defaults=True):
    """A wake. `id` is shorter than an id if wakes of all claims that begin with it may be lost."""

    id: Annotated[str, Meta(pattern="^[0-9a-f]{0,32}$", max_length=32)]
    granted: bool = False
    floor: Number = 0


class Goaway(Struct, tag_field="t", tag="goaway"):
    """The replica is about to end, or reads its configuration again. Connect to another one."""


Reply = Welcome | Said | Gone | Done | Recorded | Page | Promised | Signed | Failed | Woken | Goaway

encode = msgspec.json.Encoder().encode
_request: msgspec.json.Decoder[Request] = msgspec.json.Decoder(Request)
_reply: msgspec.json.Decoder[Reply] = msgspec.json.Decoder(Reply)


class Malformed(ValueError):
    """A message that is not one of these. Its text is safe to be shown."""


def request(frame: bytes | str) -> Request:
    """Parse a message of a client. Raise `Malformed` if it is none."""
    return _parsed(_request, frame)


def reply(frame: bytes | str) -> Reply:
    """Parse a message of a replica. Raise `Malformed` if it is none."""
    return _parsed(_reply, frame)


def _parsed(decoder: msgspec.json.Decoder[T], frame: bytes | str) -> T:
    try:
        return decoder.decode(frame)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise Malformed(str(error)[:200]) from None
