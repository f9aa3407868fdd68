"""The waiting claims of an engine, by the slots of their clients' ears."""

from __future__ import annotations

from collections import deque

from lockfast.engines.mysql import messages
from lockfast.port import CLIENT
from lockfast.runtime.base import Clock

SWEEP = 1.0  # seconds between two looks for claims that have ended without a word


class Waiting:
    """Which claims wait. Any thread reports them, and only `listen` reads.

    Reports wait in a queue until it reads, because each step of a thread must be one operation.
    """

    def __init__(self, clock: Clock) -> None:
        """Start without a claim."""
        self._now = clock
        self._news: deque[tuple[str, float | None]] = deque()
        self._known: dict[str, float] = {}
        """Until when each claim waits if nothing else is heard of it."""
        self.slots: dict[int, dict[str, dict[str, None]]] = {}
        """The claims that wait, by slot and client."""
        self.new: dict[str, None] = {}
        """The clients that have begun to wait, until somebody takes them out."""
        self._swept = 0.0

    def begins(self, ident: str, until: float) -> None:
        """Report a claim that waits, for `until` at the longest."""
        self._known[ident] = until
        self._news.append((ident, until))

    def ends(self, ident: str) -> None:
        """Report a claim that does not wait."""
        if self._known.pop(ident, None) is not None:
            self._news.append((ident, None))

    def catch_up(self) -> None:
        """Read what was reported."""
        while self._news:
            ident, until = self._news.popleft()
            client = ident[:CLIENT]
            if until is None:
                self._remove(client, ident)
            else:
                claims = self.slots.setdefault(messages.slot(client), {}).setdefault(client, {})
                if not claims:
                    self.new[client] = None
                claims[ident] = None
        now = self._now()
        if now >= self._swept + SWEEP:
            self._swept = now
            for ident, until in list(self._known.items()):
                if until <= now:
                    self.ends(ident)

    def _remove(self, client: str, ident: str) -> None:
        slot = messages.slot(client)
        clients = self.slots.get(slot, {})
        claims = clients.get(client, {})
        claims.pop(ident, None)
        if not claims:
            clients.pop(client, None)
        if not clients:
            self.slots.pop(slot, None)

    def clients(self) -> list[str]:
        """Return the clients that have a waiting claim."""
        return [client for clients in self.slots.values() for client in clients]
