"""The interface of an engine: the methods that each engine implements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from lockfast.guarantees import Guarantees
from lockfast.port.ask import Ask
from lockfast.port.replies import Page, Standing, Wake


class Renewer(Protocol):
    """The part of a blocking engine that renews the claims of an asyncio engine."""

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Do what `Engine.renew` does, and never suspend. The asyncio engine may be renewing the
        same claims at the same time.
        """
        ...

    def reset(self) -> None:
        """Drop every connection in a forked child, as `Engine.reset` does."""
        ...

    async def close(self) -> None:
        """Close its own connections, and nothing that belongs to the asyncio engine."""
        ...


class Replaceable(Protocol):
    """An asyncio engine whose claims can be renewed while its event loop is blocked.

    `stand_in` is optional. Without it, a loop that is blocked for longer than a ttl loses leases.
    """

    def stand_in(self) -> Renewer:
        """Return a blocking renewer of this engine's claims. It connects on its first use.

        Another thread than that of the event loop calls this.
        """
        ...


class Batched(Protocol):
    """An engine that wants the requests of several callers in one call: see `engines.batching`.

    `batch` is optional. Without it, each request is a call of its own.
    """

    batch: int
    """How many claims one call of `claim_all`, `renew` or `resign` carries at most."""


class Named(Protocol):
    """An engine whose server checks that the ids of claims belong to its client.

    `client` is optional. Without it, the client chooses a name at random. An engine that is made
    after a fork has another name, because parent and child must not make the same ids.
    """

    client: str
    """The first CLIENT digits of all ids of this engine's client."""


class Bound(Protocol):
    """An engine whose claims end with the process that made them, for example because they belong
    to its session. Then a client of the service cannot take them to another replica.

    `bound` is optional. Without it, every process that reaches the server can renew a claim.
    """

    bound: bool
    """Whether that is so."""


class Departing(Protocol):
    """An engine that can remove the claims of a client whose connection to the service has ended,
    unless the client has another connection.

    Both methods are optional, and come together. Only a replica of the service calls them, for
    claims whose client has asked for it (`Ask.departs`). It attaches such a claim each time before
    it claims or renews it, and returns no standing if that has failed.
    """

    async def attach(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Store that these claims belong to the connection `Ask.epoch` of their client, unless they
        belong to a later one. The claims need not exist. Keep that for `ATTACHED` seconds longer
        than their ttl. Callable by several tasks at once.

        Return for each claim whether it belongs to this connection now, or the error. A claim that
        fails does not affect the others. No claim is in `asks` twice.
        """
        ...

    async def depart(self, asks: Sequence[Ask], deadline: float) -> list[bool | Exception]:
        """Do what `resign` does with `doubt`, to those claims that belong to `Ask.epoch`. Change
        nothing of the others. The comparison and the removal are one atomic step.

        Return for each claim whether it was removed, or the error. A claim that fails does not
        affect the others. No claim is in `asks` twice.
        """
        ...


class Paced(Protocol):
    """An engine whose claims are renewed more or less often than usual.

    Both are optional. Without `on_disconnect`, and with 0, claims end with their ttl. With it, they
    end some time after their connection, at the wish of the user.
    """

    on_disconnect: float
    """The `Ask.departs` of all claims that are to end with the connection."""
    busy: bool
    """Whether the latest reply to a renewal said that the server is overloaded. Then claims are
    renewed less often."""


class Signer(Protocol):
    """An engine whose server signs tokens, for resources that do not believe their clients.

    `sign` is optional. Only the service has it: a server that stores what its clients send cannot
    vouch for it.
    """

    async def sign(self, ask: Ask, audience: str, deadline: float) -> str:
        """Return a signed token of a claim that was granted. `audience`: whom it is for."""
        ...


class Engine(Protocol):
    """The interface of an engine, blocking or asyncio. Deadlines are of the local clock.

    A method raises `EngineUnavailable` if no reply came by the deadline, and `EngineRefused` if the
    server rejected the request. `EngineUnavailable.sent` is False only if no byte of the request
    can have reached the server: then nothing can have happened, and the claim needs no tombstone.
    In every other case, also if the connection ended while the request was written, it is True.

    Methods of a blocking engine never suspend. All methods may be called by several threads or
    tasks at once, except `listen` and `renew`: one thread or task calls both, the heart. (While the
    heart of asyncio is blocked, a `Renewer` of its own renews.) The constructor of an engine does
    not connect: connections are made on first use.

    Two engines may be asked about one claim, at the same time or one after the other, because a
    client of the service moves to another replica. Each answers what the server knows.
    """

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        """Add a claim to its queue, atomically and idempotently by id, and return its standing.

        Returns None if the id is dead: it has expired, or has a tombstone, or the copy came too
        late. Raises `KindMismatch` if the name's live claims are of another kind.
        """
        ...

    async def claim_all(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Do the same for several claims, in one round trip where that is possible. Each succeeds
        or fails by itself, and no two are for one name.
        """
        ...

    async def renew(
        self, asks: Sequence[Ask], deadline: float
    ) -> list[Standing | Exception | None]:
        """Extend holders to their ttl and waiters to their wait_ttl, and return their standings.

        None stands for a claim that is gone. A renewal never adds to the time left, never shortens
        it and never recreates a claim. A claim that fails does not affect the others. No claim is
        in `asks` twice.
        """
        ...

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        """Remove claims for good, and wake exactly those that may now be granted. Return for each
        claim whether it was there, or the error if its resignation failed. A claim that fails does
        not affect the others.

        Args:
            asks: The claims.
            deadline: When to give up, an instant of the local clock.
            doubt: A copy of the claim was sent and not answered, and must not be applied later. The
                engine leaves a tombstone: it refuses the id until `TOMB_MARGIN` after the latest
                moment at which any copy would be applied, by the server's clock (`Ask.late`).
        """
        ...

    def abandon(self, asks: Sequence[Ask]) -> None:
        """Send a resignation without waiting for the reply, if that is possible. Never blocks for
        long and never raises. It may do nothing, as the heart resigns the same claims afterwards.
        """
        ...

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop receiving the wakes of a client, whose name is the first CLIENT digits of
        its ids. Callable from any thread, never blocks and never raises: `listen` subscribes.

        A client calls it before its first claim. A replica of the service calls it for each client
        that connects to it. A client that is heard already, or not heard, is no error.
        """
        ...

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait for wakes, a `rouse` or the deadline, and return the wakes of the clients that are
        heard. A lost connection is no error here: return `EVERYONE` once the server sends wakes
        (again), and nothing until then. After a subscription for one more client, return
        `everyone_of` that client.

        The heart calls it between renewals. An engine may also do its background work here, such as
        resignations for a server that was unreachable. That must not outlast the deadline.
        """
        ...

    def rouse(self) -> None:
        """Make `listen` return now. Callable from any thread, never raises."""
        ...

    def time(self, name: str) -> float | None:
        """Return the present time of the server that keeps this name, in seconds of its clock, by
        its latest reply. None: no reply has told it yet. Never sends, never blocks and never
        raises.

        It is the clock of `Ask.fixed`. The time is never later than the server's, and may be
        earlier, by as long as that reply took. An engine without a clock that decides about a claim
        returns the wall clock of this process: see `engines.wall_clock`.
        """
        ...

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        """Return a page of the claims on one name, or on all names with a prefix. Change nothing.

        Pages are read one by one. A claim that changes in between may appear twice, or not at all.
        """
        ...

    async def record(self, name: str, claim: str, record: bytes, deadline: float) -> None:
        """Store the record of a break, one line of text of at most `RECORD` bytes.

        The newest `RECORDS` of a name are kept, for about a day. No decision of lockfast depends on
        them.

        Args:
            name: The name of the lock.
            claim: The id of the claim that was broken.
            record: The line of text, in UTF-8.
            deadline: When to give up, an instant of the local clock.
        """
        ...

    async def records(self, name: str, deadline: float) -> list[bytes]:
        """Return the records of breaks of a name, the newest first."""
        ...

    async def guarantees(self, deadline: float) -> Guarantees:
        """Read the server's setup, and return what the engine guarantees with it."""
        ...

    def reset(self) -> None:
        """Drop every connection in a forked child, without sending anything: the parent still uses
        them. The engine is discarded afterwards, and the child makes another one.
        """
        ...

    async def close(self) -> None:
        """Close the connections, within CLOSING seconds. Never raises."""
        ...
