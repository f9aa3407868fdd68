"""Proof that a session lives: an empty transaction, which a majority of the servers accepts.

A session ends when the leader has heard nothing of it for its timeout. A leader that was replaced,
and does not know it yet, still answers reads, pings and `sync`, which no other server takes part
in: none of these proves that the session lives. A transaction does:

- The leader looks whether the session is alive before it proposes a transaction of that session.
- The reply comes once a majority has accepted the proposal, in this leader's epoch. Every later
  leader is elected by a majority, one of which accepted the proposal before it left for the new
  epoch. So every later leader was elected after the request was sent, and it starts the timeout of
  every session anew when it is elected.

So from the send on the session lives for its timeout, whoever leads. The transaction checks the
version of a node and changes nothing: no node of its own, which could leak or be contended for, no
watch fires, and it needs the right to read alone. It is logged and counted like any write.
"""

from __future__ import annotations

import contextlib

from kazoo.exceptions import NoNodeError
from kazoo.protocol.serialization import CheckVersion, Sync, Transaction

from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.transport import Reply, Transport

ANY = -1  # version


class Proof:
    """One transaction on its way. What is sent behind it on the same session is read after it."""

    def __init__(self, transport: Transport, session: Session, path: str) -> None:
        """Send it. `path` is a node that we may read; it need not be there."""
        self._transport = transport
        self._session = session
        self.sent = transport.now()
        self._reply: Reply = session.send(transport, Transaction([CheckVersion(path, ANY)]))

    async def settle(self, deadline: float) -> None:
        """Wait until it is accepted, and let the session's lease begin at its send."""
        with contextlib.suppress(NoNodeError):  # a majority has accepted this answer too
            await self._session.settle(self._transport, self._reply, deadline)
        self._session.prove(self.sent)


class CaughtUp:
    """In place of a proof that is not needed: the server catches up with its leader first.

    Without it a follower that lags shows a claim that was resigned already. Nothing is logged.
    """

    def __init__(self, transport: Transport, session: Session, path: str) -> None:
        """Send it."""
        self._transport = transport
        self._session = session
        self._reply: Reply = session.send(transport, Sync(path))

    async def settle(self, deadline: float) -> None:
        """Wait until the server has caught up. The session's lease does not move."""
        await self._session.settle(self._transport, self._reply, deadline)
