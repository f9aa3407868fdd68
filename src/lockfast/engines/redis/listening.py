"""Listening: the wakes of the clients that an engine hears, from one server's connection."""

from __future__ import annotations

from collections.abc import Sequence

from lockfast.engines.pushes import CALM, before, patience
from lockfast.engines.redis.inspection import Inspection
from lockfast.engines.redis.refusals import Refusals
from lockfast.engines.redis.routes import PAUSE
from lockfast.engines.redis.subscriptions import Subscriptions
from lockfast.engines.redis.topology import Topology
from lockfast.engines.redis.transport import Address, Transport
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.guarantees import Finding
from lockfast.port import Wake
from lockfast.runtime.base import Clock


class Listening(Inspection):
    """The part of the engine that receives wakes."""

    def __init__(
        self, transport: Transport, topology: Topology, clock: Clock, weak: Sequence[Finding] = ()
    ) -> None:
        """Start without a client to hear. `weak`: findings about unprotected connections."""
        super().__init__(transport, topology, clock, weak)
        self._subscriptions = Subscriptions(Refusals(clock), clock)
        self._listened: Address | None = None
        """The node of a Cluster that was listened to last."""

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop receiving the wakes of a client. `listen` subscribes to its channel."""
        self._subscriptions.hear(client, on=on)
        self._transport.rouse()

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Wait for pushes on the heart's connection. Subscribe again if the connection ended."""
        try:
            if self._subscriptions.needless:
                await self._transport.pause(deadline)
                return []
            address = await self._ear(patience(deadline, self._now()))
            again = self._subscriptions.retry(address)
            if again is not None:
                deadline = before(deadline, again)
                if self._subscriptions.silenced:
                    await self._transport.pause(deadline)
                    return []
            return await self._hear(address, deadline)
        except EngineError:
            self._topology.doubt()
            await self._transport.pause(before(deadline, self._now() + CALM))
            return []

    async def _ear(self, deadline: float) -> Address:
        """Return the server to listen to. In a Cluster any node gets what the others publish.

        Keep the last one as long as it answers.
        """
        if self._topology.together:
            return self._topology.find(0) or await self._where(0, deadline)
        if self._listened is None or self._listened in self._silent:
            nodes = await self._nodes(deadline, again=False)
            if self._listened is not None:  # nobody would read what it continues to send
                self._transport.forget(self._listened)
            self._listened = min(nodes, key=lambda node: self._silent.get(node, 0.0))
        return self._listened

    async def _hear(self, address: Address, deadline: float | None) -> list[Wake]:
        """Bring the subscriptions up to date, and wait for pushes if that says nothing."""
        subscriptions, transport = self._subscriptions, self._transport
        end = patience(deadline, self._now())
        try:
            ear = await transport.ear(address, end)
            told = await subscriptions.follow(transport, ear, address, end)
            if subscriptions.silenced:
                return []
            # Pushes are read in any case: clients may come without a pause.
            until = self._now() if told or subscriptions.due else deadline
            return told + subscriptions.wakes(await transport.listen(address, until))
        except EngineRefused as error:
            subscriptions.refuse(address, error)
            return []
        except EngineUnavailable:
            self._silent[address] = self._now() + PAUSE
            raise

    def rouse(self) -> None:
        """Make `listen` return now."""
        self._transport.rouse()
