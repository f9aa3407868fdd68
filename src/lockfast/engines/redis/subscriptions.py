"""The clients whose wakes an engine receives, and their channels on the heart's connection."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, Protocol

import hiredis

from lockfast.engines.pushes import wakes
from lockfast.engines.redis.channels import OFF, ON, Change
from lockfast.engines.redis.keys import PREFIX
from lockfast.engines.redis.refusals import Refusals
from lockfast.engines.redis.transport import RIGHTS, Address, failure
from lockfast.errors import EngineRefused
from lockfast.port import CLIENT, EVERYONE, Wake, everyone_of
from lockfast.runtime.base import Clock

log = logging.getLogger("lockfast")
TOGETHER = 512  # channels in one command: the server works for about a millisecond on it
ENOUGH = 0.25
"""Seconds that each command has at least. Without an answer the connection must be closed, and all
clients subscribed to again: the last command before a deadline must not lead to that."""
MISSING = object()


class Ears(Protocol):
    """The part of a transport that changes the subscriptions of a connection."""

    async def change(
        self, ear: Any, changes: Sequence[Change], deadline: float
    ) -> list[hiredis.ReplyError | None]:
        """Send commands together. Return for each None, or the error with which it was refused."""
        ...


class Subscriptions:
    """The clients that an engine hears, and those whose channels its connection has subscribed to.

    `hear` only notes what has changed. The heart brings its connection up to date, so a change
    costs the same however many clients are heard. A new connection begins with all of them.
    """

    def __init__(
        self, refusals: Refusals, clock: Clock, prefix: str = PREFIX, rights: str = RIGHTS
    ) -> None:
        """Start without clients. A client's channel is `prefix` and its name.

        `rights`: those that an error about a missing right names.
        """
        self._refusals = refusals
        self._now = clock
        self._prefix = prefix
        self._rights = rights
        self._heard: dict[str, None] = {}
        """Changed by any thread, in single operations, which are atomic. So is `_changed`."""
        self._changed: deque[str] = deque()
        """Clients whose channels may have to be subscribed to, or no longer."""
        self._ear: object = None
        self._there: set[str] = set()
        """The clients to whose channels `_ear` has subscribed."""
        self._refused: list[str] = []
        """The clients whose channels the server has refused. They are due again after a while."""
        self._begun = False
        """Whether EVERYONE was returned since `_ear` is the connection."""
        self._told: set[Address] = set()
        """The servers whose refusal of UNSUBSCRIBE was logged."""

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop hearing a client, from any thread. The caller wakes the heart."""
        if on:
            self._heard[client] = None
        elif self._heard.pop(client, MISSING) is MISSING:
            return
        self._changed.append(client)

    @property
    def needless(self) -> bool:
        """Whether no connection is needed: no client is heard, and none has to be given up."""
        return not self._heard and not self._there

    @property
    def due(self) -> bool:
        """Whether the connection is not up to date."""
        return bool(self._changed)

    @property
    def silenced(self) -> bool:
        """Whether the server has refused every channel."""
        return bool(self._refused) and not self._there

    def retry(self, address: Address) -> float | None:
        """Return when refused channels are due again. None: nothing was refused, or it is now."""
        return self._refusals.until(address)

    def refuse(self, address: Address, error: EngineRefused) -> None:
        """Note that a server has refused the login, and so all channels. There is no connection."""
        self._ear, self._there, self._refused = None, set(), list(self._heard)
        named = next(iter(self._heard), "")
        self._refusals.note(address, self._prefix + named, error)

    async def follow(
        self, transport: Ears, ear: object, address: Address, deadline: float
    ) -> list[Wake]:
        """Bring a connection up to date, as far as the deadline allows but by one command at least.
        Return the wakes of those that may have missed some.
        """
        found: list[Wake] = []
        try:
            if ear is not self._ear:
                self._begin(ear)
            elif self._refused and self.retry(address) is None:
                self._changed.extend(self._refused)
                self._refused = []
            while self._changed:
                end = max(deadline, self._now() + ENOUGH)
                found += await self._some(transport, ear, address, end)
                if self._now() >= deadline:
                    break
        except BaseException:
            self._ear = None  # what the server has done of it is unknown
            raise
        if self._begun:
            return found
        if self._changed or not self._there:
            return []
        self._begun = True
        return [EVERYONE]

    def _begin(self, ear: object) -> None:
        self._ear, self._begun, self._there, self._refused = ear, False, set(), []
        # First, because a client that comes in between must be in one of the two.
        self._changed.clear()
        self._changed.extend(list(self._heard))

    async def _some(
        self, transport: Ears, ear: object, address: Address, deadline: float
    ) -> list[Wake]:
        count = min(len(self._changed), TOGETHER)
        clients = dict.fromkeys(self._changed.popleft() for _ in range(count))
        heard = [client for client in clients if client in self._heard]
        gone = [client for client in clients if client not in self._heard and client in self._there]
        lacking = [client for client in heard if client not in self._there]
        if lacking:
            await self._subscribe(transport, ear, address, lacking, deadline)
        if gone:
            (refused,) = await transport.change(ear, [Change(OFF, self._channels(gone))], deadline)
            if refused is None:
                self._there.difference_update(gone)
            else:
                self._kept(address, refused)
        return [everyone_of(client) for client in heard if client in self._there]

    async def _subscribe(
        self, transport: Ears, ear: object, address: Address, clients: list[str], deadline: float
    ) -> None:
        """Subscribe to the channels of clients. Redis refuses a whole command if one channel is not
        allowed, so then each is sent by itself.
        """
        answers = await transport.change(ear, [Change(ON, self._channels(clients))], deadline)
        if answers[0] is not None and len(clients) > 1:
            alone = [Change(ON, self._channels([client])) for client in clients]
            answers = await transport.change(ear, alone, deadline)
        else:
            answers *= len(clients)
        refused = {
            client: failure(answer, address, self._rights)
            for client, answer in zip(clients, answers, strict=True)
            if answer is not None
        }
        self._there.update(client for client in clients if client not in refused)
        for client, error in refused.items():
            if not isinstance(error, EngineRefused):
                raise error
            self._refusals.note(address, self._prefix + client, error)
        self._refused += refused
        if not self._refused:
            self._refusals.accepted(address)
        elif not self._there:  # it refuses them all: do not ask for each of thousands
            self._refused += [self._changed.popleft() for _ in range(len(self._changed))]

    def _channels(self, clients: Iterable[str]) -> list[bytes]:
        return [f"{self._prefix}{client}".encode() for client in clients]

    def _kept(self, address: Address, refused: hiredis.ReplyError) -> None:
        if address not in self._told:
            self._told.add(address)
            log.warning(
                "%s. Redis still sends this connection the messages for clients that have left.",
                failure(refused, address, self._rights),
            )

    def wakes(self, messages: Sequence[bytes]) -> list[Wake]:
        """Return the wakes of messages for the clients that are heard."""
        return [wake for wake in wakes(messages) if self.hears(wake.id)]

    def hears(self, ident: str) -> bool:
        """Return whether the client of a claim is heard."""
        return ident[:CLIENT] in self._heard
