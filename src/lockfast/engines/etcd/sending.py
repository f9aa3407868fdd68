"""Sends copies of claims, alone or several in one transaction, and counts those without an answer.

A claim may be resigned, or its time may be over, while its request waits for a session, for a turn
or for a login. So each claim is looked at again when its request is complete, just before that is
sent. The order matters. A copy is counted before the request is written, and the claim is looked at
after that. A resignation buries the claim first, and then moves the gates if it finds a copy. So
either the copy is not sent, or the gate that it was written with has moved (trap 47).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from lockfast.engines.etcd.messages import TXN
from lockfast.engines.etcd.own_claims import OwnClaims
from lockfast.engines.etcd.transport import Transport
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import Ask
from lockfast.runtime.base import Crowded

Write = Callable[[Sequence[Ask]], bytes]
"""Writes the transaction for the claims that are left."""


class Sender:
    """Sends the claims of one client. Thread-safe."""

    def __init__(self, transport: Transport, own: OwnClaims) -> None:
        """Count the copies in `own`."""
        self._transport = transport
        self._own = own

    async def send(self, ask: Ask, request: bytes, deadline: float) -> bytes | None:
        """Send a copy of a claim, and return the reply. None: it is dead, and was not sent."""
        live, reply = await self.send_all((ask,), lambda _: request, deadline)
        return reply if live else None

    async def send_all(
        self, asks: Sequence[Ask], write: Write, deadline: float
    ) -> tuple[list[Ask], bytes]:
        """Send copies of several claims in one transaction. Return those that were sent, which are
        all that are not dead, and the reply.
        """
        try:
            return await self._transport.in_turn(
                partial(self._send_all, asks, write, deadline), deadline
            )
        except Crowded:
            raise EngineUnavailable("etcd: too many requests at once", sent=False) from None

    async def _send_all(
        self, asks: Sequence[Ask], write: Write, deadline: float
    ) -> tuple[list[Ask], bytes]:
        own, live = self._own, list(asks)
        own.sending(live)
        try:
            while live:
                request = write(live)
                dead = self._dead(live)
                if not dead:
                    reply = await self._transport.call(TXN, request, deadline)
                    own.answered(live)
                    return live, reply
                own.answered(dead)
                live = [ask for ask in live if ask not in dead]
        except EngineRefused:
            own.answered(live)
            raise
        except BaseException as error:
            if isinstance(error, EngineUnavailable) and not error.sent:
                own.answered(live)
            else:
                own.doubt(live)
            raise
        return live, b""

    def _dead(self, asks: Sequence[Ask]) -> list[Ask]:
        """Return the claims that must not be sent any more."""
        now = self._transport.now()
        return [ask for ask in asks if now > ask.not_after or self._own.dead(ask)]
