"""The request for one claim, as an engine receives it."""

from __future__ import annotations

from lockfast.port.limits import ServerTime
from lockfast.port.shape import Shape


class Ask:
    """The request for one claim. If it is sent again, the copy has the same content.

    A copy may be sent by another engine than the first one: a client of the service moves to
    another replica. So an engine that needs to know what its server answered earlier reads
    `ticket` and `granted`, and not only what it remembers itself.
    """

    __slots__ = (
        "alone",
        "departs",
        "epoch",
        "fixed",
        "granted",
        "id",
        "late",
        "not_after",
        "packed",
        "payload",
        "queue",
        "shape",
        "ticket",
        "trace",
    )

    def __init__(
        self,
        id: str,  # noqa: A002  # it is the id
        shape: Shape,
        queue: bool,  # noqa: FBT001  # a value, not a switch
        not_after: float,
        payload: bytes,
    ) -> None:
        """Make the request for a claim. Nothing is sent.

        `id`: 32 hexadecimal digits, used for one acquisition and never again. The first CLIENT of
        them name the client, so that an engine can address it.
        `queue`: whether the claim waits in the queue. Otherwise the engine keeps the claim only if
        it grants it at once.
        `not_after`: an instant of the local clock. The server must not apply a copy of the claim
        that arrives later. The engine either converts it to the server's clock, by an offset that
        it learns from the server's replies, and lets the server compare. Or it sends no later
        copies, and makes sure that the server refuses those under way. `not_after` is at most one
        `wait_ttl` after the first sending. So a copy either finds the entry that an earlier copy
        made, or makes the first one, and no copy revives an id that has expired.
        """
        self.id = id
        self.shape = shape
        self.queue = queue
        self.not_after = not_after
        self.payload = payload
        self.ticket = 0
        """The ticket that the client has read in a reply. 0: it has read none."""
        self.granted = False
        """Whether the client has read that the claim is granted."""
        self.epoch = 0
        """The number of the client's connection to the service: each new connection has a higher
        one. 0: the client does not use the service."""
        self.fixed: float | None = None
        """`not_after` in seconds of the server's clock, if a client of the service has fixed it.
        Then an engine whose server compares it passes it on as it is, and does not convert
        `not_after`. Converted again, a copy that lay in the buffer of a paused replica would be
        applied later than the client has asked for, and could outlive the claim's tombstone."""
        self.departs = 0.0
        """How many seconds after the end of that connection the service is to remove the claim. 0:
        it ends with its ttl."""
        self.alone = False
        """Whether it is sent by itself, because a call that it shared with others has failed."""
        self.packed: object = None
        """The claim in the engine's own encoding. An engine may keep it here, to encode it once. It
        keeps nothing here that it could not make again from the other fields."""
        self.trace = ""
        """The span in which the client acquires, as W3C's `traceparent`, if it traces. Only the
        engine for the service sends it."""
        self.late = ServerTime(0)
        """The latest `not_after` that any copy was sent with, by the server's clock. A tombstone
        must outlive it, and the offset to that clock may have changed since the copy was sent."""
