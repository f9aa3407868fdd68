"""The stand-in of an asyncio engine: it renews the same claims through a blocking transport.

A claim lives in etcd as long as its lease, and the lease and its claims are known to the engine
that made them. So the stand-in has a connection of its own, and shares all else with that engine.
What it shares is made for several threads, since the engine of a blocking client has them.
"""

from __future__ import annotations

from lockfast.engines.etcd.listener import Listener
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.queues import Places
from lockfast.engines.etcd.renewals import Renewals
from lockfast.engines.etcd.sessions import Sessions
from lockfast.engines.etcd.threads import ThreadTransport


class SharedSessions(Sessions):
    """The sessions of another engine. Only the transport is its own, and the mutex, which blocks.

    An attribute in `__slots__` is found before one in `__dict__`, and `__dict__` is shared.
    """

    __slots__ = ("_opening", "_transport")

    def __init__(self, sessions: Sessions, transport: ThreadTransport) -> None:
        """Share all that these sessions have, now and later."""
        self.__dict__ = sessions.__dict__
        self._transport = transport
        self._opening = transport.mutex()


class SharedClaims(OwnClaims):
    """The claims of another engine, in the same way."""

    __slots__ = ("_sessions", "_transport")

    def __init__(
        self, own: OwnClaims, sessions: SharedSessions, transport: ThreadTransport
    ) -> None:
        """Share all that these claims have, now and later."""
        self.__dict__ = own.__dict__
        self._transport = transport
        self._sessions = sessions


class StandIn(Renewals):
    """Renews the claims of an asyncio engine while its event loop is blocked. It blocks."""

    def __init__(
        self,
        transport: ThreadTransport,
        sessions: Sessions,
        own: OwnClaims,
        listener: Listener,
        base: int,
    ) -> None:
        """Share the parts of an engine, and connect to nothing yet."""
        self._transport = transport
        claims = SharedClaims(own, SharedSessions(sessions, transport), transport)
        super().__init__(claims, Places(claims, listener, base), transport.now)

    def reset(self) -> None:
        """Forget every connection, in a forked child."""
        self._transport.reset()

    async def close(self) -> None:
        """Close the connections. The leases belong to the engine."""
        await self._transport.close()
