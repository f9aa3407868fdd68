"""Proof that a session lives: an empty transaction, which a majority of the servers accepts.

A session ends when the leader has heard nothing of it for its timeout. A leader that was replaced
and has not noticed it still answers reads, pings and `sync` without any other server. So none of
these proves that the session lives. A committed transaction does:

- The leader checks that the session is alive before it proposes a transaction of that session.
- The reply comes once a majority has accepted the proposal, in this leader's epoch. A majority
  elects every later leader, and at least one of its members accepted the proposal before it joined
  the new epoch. So every later leader was elected after the request was sent, and a new leader
  restarts the timeout of every session.

So the session lives for its timeout from the moment of sending, whichever server leads. The
transaction checks the version of a node and changes nothing. It has no node of its own, which could
leak or be contended for. It fires no watch and needs only the right to read. The servers log and
count it like any write.
"""

from __future__ import annotations

import contextlib

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import CheckVersion, Sync, Transaction

from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.transport import Reply, Transport

ANY = -1  # matches every version of a node


class Proof:
    """One empty transaction. The server handles later requests of the same session after it."""

    def __init__(self, transport: Transport, session: Session, path: str) -> None:
        """Send the transaction. `path` is a node that we may read; it need not exist."""
        self._transport = transport
        self._session = session
        self.sent = transport.now()
        self._reply: Reply = session.send(transport, Transaction([CheckVersion(path, ANY)]))

    async def settle(self, deadline: float) -> None:
        """Wait until a majority has accepted it. The session's timeout then counts from `sent`."""
        with contextlib.suppress(NoNodeError):  # a majority has accepted this answer too
            await self._session.settle(self._transport, self._reply, deadline)
        self._session.prove(self.sent)


class CaughtUp:
    """A `sync`, in place of a proof that is not needed: the server catches up with its leader.

    Without it, a follower that lags would still list a claim that was already resigned. The servers
    log nothing for it.
    """

    def __init__(self, transport: Transport, session: Session, path: str) -> None:
        """Send the `sync`."""
        self._transport = transport
        self._session = session
        self._reply: Reply = session.send(transport, Sync(path))

    async def settle(self, deadline: float) -> None:
        """Wait until the server has caught up. The session's anchor does not move."""
        await self._session.settle(self._transport, self._reply, deadline)
