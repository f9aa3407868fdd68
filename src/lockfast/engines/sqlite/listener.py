"""The waiting claims of an engine, and the grants that its heart has not received yet.

There is no server that could send a message. While a claim of this engine waits, the engine asks
every few milliseconds whether another process has written to the database. Only if one has, it
reads which claims of the clients that it hears were granted.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Iterable

from lockfast.engines.sqlite.store import Store
from lockfast.engines.sqlite.transaction import Transaction
from lockfast.port import CLIENT, EVERYONE, Ask, Standing, Wake, everyone_of
from lockfast.runtime.base import Bell, Clock

SHORTEST, LONGEST = 0.001, 0.01  # seconds between two looks
TROUBLE = 0.1  # the same after a look that failed
SLOWER = 1.1  # the factor by which the time between looks grows while nothing is written
EVERY = """SELECT id, woken FROM claim INDEXED BY claim_woken
 WHERE woken IS NOT NULL"""
WOKEN = f"{EVERY} AND id >= ? AND id < ?"

_listeners: dict[str, dict[int, weakref.ref[Listener]]] = {}
"""The listeners of this process, by the client's part of their ids. Any thread may change it, by
single operations, which are atomic."""


def notify(wakes: Iterable[Wake]) -> None:
    """Pass grants on to the engines of this process. Those of other processes look by themselves.

    A connection does not see its own commits as changes, so this is also how a client hears of
    grants that its own operations have caused.
    """
    for wake in wakes:
        for listener in _of(_listeners.get(wake.id[:CLIENT], {})):
            listener.push(wake)


def _of(listeners: dict[int, weakref.ref[Listener]]) -> list[Listener]:
    return [found for each in list(listeners.values()) if (found := each()) is not None]


class Listener:
    """The wakes of one engine. Only the heart takes them, and any thread may add some."""

    def __init__(self, bell: Bell, now: Clock) -> None:
        """Start with `EVERYONE` as the first push, as the port demands."""
        self.bell = bell
        self._roused = False
        self._now = now
        self._heard: dict[str, None] = {}
        self._pushes = deque([EVERYONE])
        self._waiting: dict[str, float] = {}
        """The claims that wait, and until when each of them lives without a renewal."""
        self._told: set[str] = set()
        """Claims that the heart knows to be granted, and that may still show up in a look."""
        self._version: tuple[int, int] | None = None
        self._pause = SHORTEST

    def hear(self, client: str, *, on: bool) -> None:
        """Start or stop receiving the grants of a client. From any thread."""
        if on:
            self._heard[client] = None
            self._join(client)
            return
        self._heard.pop(client, None)
        for told in [each for each in list(self._told) if each.startswith(client)]:
            self._told.discard(told)
        # What is left goes in again: another listener may come while this one leaves.
        rest = _listeners.pop(client, {})
        rest.pop(id(self), None)
        for listener in _of(rest):
            listener._join(client)  # noqa: SLF001  # another one of this class

    def _join(self, client: str) -> None:
        while True:
            listeners = _listeners.setdefault(client, {})
            listeners[id(self)] = weakref.ref(self)
            if _listeners.get(client) is listeners:  # else one that left has taken them out
                break
        self.push(everyone_of(client))

    def leave(self) -> None:
        """Stop receiving the grants of all clients."""
        for client in list(self._heard):
            self.hear(client, on=False)

    def answered(self, ask: Ask, found: object) -> None:
        """Note whether a claim waits, from the reply to a claim or a renewal."""
        if isinstance(found, Standing) and found.ticket and not found.granted:
            new = ask.id not in self._waiting
            self._waiting[ask.id] = self._now() + ask.shape.wait_ttl
            if new:  # only now: the heart may look at once, and must find it
                self._pause = SHORTEST
                self.bell.ring()
        elif not isinstance(found, Exception):
            self.resigned(ask)

    def resigned(self, ask: Ask) -> None:
        """Forget a claim that was resigned, or that does not wait."""
        self._waiting.pop(ask.id, None)
        self._told.discard(ask.id)

    def push(self, wake: Wake) -> None:
        """Add a grant, and wake the heart. From any thread."""
        self._pushes.append(wake)
        self.bell.ring()

    def rouse(self) -> None:
        """Make the heart return from `listen`. From any thread."""
        self._roused = True
        self.bell.ring()

    def interrupted(self) -> bool:
        """Return whether the heart was roused, or has pushes to take."""
        roused, self._roused = self._roused, False
        return roused or bool(self._pushes)

    def pause(self) -> float | None:
        """Return the seconds until the next look. None if no claim waits."""
        now = self._now()
        for id_, until in list(self._waiting.items()):
            if until <= now:
                self._waiting.pop(id_, None)
        return self._pause if self._waiting else None

    def look(self, store: Store) -> bool:
        """Look for grants, if another process has written. Return whether there are pushes."""
        version = store.version()
        if version is not None and version == self._version:
            self._pause = min(self._pause * SLOWER, LONGEST)
            return bool(self._pushes)
        woken = store.look(self._read)
        if woken is None:
            self._pause = TROUBLE
            return bool(self._pushes)
        if self._version is not None and (version is None or version[0] != self._version[0]):
            self._pushes.append(EVERYONE)  # the file was opened again, and may be another one
        self._version, self._pause = version or self._version, SHORTEST
        self._told.intersection_update([wake.id for wake in woken])
        self._pushes.extend(wake for wake in woken if wake.id not in self._told)
        return bool(self._pushes)

    def _read(self, transaction: Transaction) -> list[Wake]:
        heard = list(self._heard)
        if len(heard) == 1:
            rows = transaction.all(WOKEN, heard[0], f"{heard[0]}~")
        else:  # few claims are granted and not renewed yet, so one look is less than one for each
            rows = transaction.all(EVERY)
        return [
            Wake(found, granted=True, floor=int(floor))
            for id_, floor in rows
            if (found := str(id_))[:CLIENT] in self._heard
        ]

    def take(self) -> list[Wake]:
        """Return the pushes that the heart has not got yet."""
        taken: list[Wake] = []
        while self._pushes:
            wake = self._pushes.popleft()
            if wake.id and wake.id[:CLIENT] not in self._heard:
                continue
            if wake.id not in self._told:
                taken.append(wake)
                self._waiting.pop(wake.id, None)
                if len(wake.id) > CLIENT:
                    self._told.add(wake.id)
        return taken
