"""Counts the requests of an etcd engine, and loses replies to them."""

from __future__ import annotations

from typing import Any, Self

from lockfast.engines.etcd.messages import GRANT, KEEP, TXN
from lockfast.errors import EngineError, EngineUnavailable
from lockfast.testing.harness.stage import Actor


class Requests:
    """The requests that a client sends within the block."""

    def __init__(
        self, actor: Actor, *, lost: int = 0, spoilt: int = 0, error: EngineError | None = None
    ) -> None:
        """Lose or spoil the reply to the transaction of this number, not counting those that open a
        session. With `error`, the transaction is not sent, and fails with it.
        """
        self._engine: Any = actor.engine
        self._lost = lost
        self._spoilt = spoilt
        self._error = error
        self._opening = False
        self.sent: list[str] = []
        """The methods, in order."""
        self.of_claims: list[bytes] = []
        """The transactions, without those that open a session."""
        self.received = 0
        """The bytes of all replies."""

    def __enter__(self) -> Self:
        self._call = self._engine._transport.call
        self._engine._transport.call = self._counted
        return self

    def __exit__(self, *_: object) -> None:
        self._engine._transport.call = self._call

    async def _counted(self, method: str, request: bytes, *args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401  # as call
        self.sent.append(method)
        opening, self._opening = self._opening, method == GRANT
        if method == TXN and not opening:
            self.of_claims.append(request)
            if self._error is not None and len(self.of_claims) == self._lost:
                raise self._error
        reply: bytes = await self._call(method, request, *args, **kwargs)
        self.received += len(reply)
        if method == TXN and not opening:
            if len(self.of_claims) == self._lost:
                raise EngineUnavailable("the reply was lost", sent=True)
            if len(self.of_claims) == self._spoilt:
                return reply[:-1]
        return reply

    @property
    def keepalives(self) -> int:
        """How many keepalives were sent."""
        return self.sent.count(KEEP)


async def waiters_lease(actor: Actor) -> None:
    """Have a client open its lease for waiters, by waiting behind itself."""
    for _ in range(2):
        await actor.claim(actor.ask("waiters", ttl=60))
