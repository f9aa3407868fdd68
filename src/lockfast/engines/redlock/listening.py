"""Listening: the wakes of the clients that an engine hears, from one node at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress

from lockfast.engines.pushes import CALM, before, patience
from lockfast.engines.redis.refusals import Refusals
from lockfast.engines.redis.replies import Malformed, claim_id
from lockfast.engines.redis.subscriptions import Subscriptions
from lockfast.engines.redis.transport import Address
from lockfast.engines.redlock import messages
from lockfast.engines.redlock.claiming import DEAF, Claiming
from lockfast.engines.redlock.transport import Transport
from lockfast.errors import EngineError, EngineRefused
from lockfast.guarantees import Finding
from lockfast.port import Wake
from lockfast.runtime.base import Clock


class Listening(Claiming):
    """The part of the engine that receives wakes."""

    def __init__(
        self,
        transport: Transport,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        base: int,
        weak: Sequence[Finding] = (),
    ) -> None:
        """Start without a client to hear. The arguments are those of `Claiming`."""
        super().__init__(transport, clock, sleep, base, weak)
        self._subscriptions = Subscriptions(
            Refusals(clock), clock, messages.PREFIX, messages.RIGHTS
        )
        self._refusing: dict[Address, float] = {}
        """Nodes that have refused every channel, and when to try them again."""

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop receiving the wakes of a client. `listen` subscribes to its channel."""
        self._subscriptions.hear(client, on=on)
        self._transport.rouse()

    async def listen(self, deadline: float | None) -> list[Wake]:
        """Do the chores that are due, then wait for messages from one node."""
        try:
            due = await self._chores.do(deadline)
            if due is not None:
                deadline = before(deadline, due)
            if self._subscriptions.needless:
                await self._transport.pause(deadline)
                return []
            return await self._hear(deadline)
        except EngineError:
            await self._transport.pause(before(deadline, self._now() + CALM))
            return []

    async def _hear(self, deadline: float | None) -> list[Wake]:
        """Listen to the last node that answers, since releases are written to the others first."""
        now = self._now()
        willing = [n for n in self._transport.nodes if self._refusing.get(n, 0.0) <= now]
        if not willing:  # waiters poll meanwhile
            await self._transport.pause(before(deadline, min(self._refusing.values())))
            return []
        nodes = [n for n in willing if self._deaf.get(n, 0.0) < now]
        node = (nodes or willing)[-1]
        try:
            return await self._follow(node, deadline)
        except EngineRefused as error:
            self._subscriptions.refuse(node, error)
            self._refusing[node] = self._subscriptions.retry(node) or now
            return []
        except EngineError:
            self._deaf[node] = now + DEAF
            raise

    async def _follow(self, node: Address, deadline: float | None) -> list[Wake]:
        """Bring the subscriptions up to date, and wait for messages if that says nothing."""
        subscriptions, transport, now = self._subscriptions, self._transport, self._now()
        end = patience(deadline, now)
        found = await subscriptions.follow(transport, await transport.ear(node, end), node, end)
        again = subscriptions.retry(node)
        if subscriptions.silenced:
            self._refusing[node] = again or now
            return []
        if again is not None:
            deadline = before(deadline, again)
        # Messages are read in any case: clients may come without a pause.
        until = self._now() if found or subscriptions.due else deadline
        pushes = await transport.listen(node, until)
        self._told = {ident for ident in _ids(pushes) if subscriptions.hears(ident)}
        return found + [Wake(ident, granted=False) for ident in self._told]

    def rouse(self) -> None:
        """Make `listen` return now."""
        self._transport.rouse()


def _ids(pushes: Sequence[bytes]) -> Iterator[str]:
    """Return the ids in messages. Skip what is no id, since others may publish on the channel."""
    for message in pushes:
        with suppress(Malformed):
            yield claim_id(message)
