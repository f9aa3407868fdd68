"""Which connection gets the wakes of each client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from lockfast.engines.remote.messages import Woken, encode
from lockfast.port import CLIENT, Engine, Wake, everyone_of
from lockfast.service.figures import Figures


class Hearer(Protocol):
    """A connection that can get wakes."""

    client: str
    epoch: int

    def wake(self, frame: bytes) -> None:
        """Send an encoded `woken`."""


class Hearing:
    """The connections that hear, by client.

    A client may have several for a moment: it has a new one, and the replica has not seen yet that
    the old one is dead. The newest one gets the wakes. When the old one ends, the engine still
    hears the client.
    """

    def __init__(
        self, engine: Engine, figures: Figures, pushed: Callable[[Wake], None] | None = None
    ) -> None:
        """Begin with no connection. `pushed` gets each wake of one claim."""
        self._pushed = pushed
        self._engine = engine
        self._wakes = figures.wakes.counts
        self._hearers: dict[str, list[Hearer]] = {}

    def start(self, hearer: Hearer) -> None:
        """Send the wakes of its client to a connection, if it is the newest one."""
        hearers = self._hearers.setdefault(hearer.client, [])
        if hearer in hearers:
            return
        hearers.append(hearer)
        hearers.sort(key=_epoch)
        if len(hearers) == 1:
            self._engine.hear(hearer.client, on=True)
        else:  # the engine hears the client already, so it will not say that wakes were missed
            hearer.wake(frame_of(everyone_of(hearer.client)))

    def stop(self, hearer: Hearer) -> None:
        """Send no more wakes to a connection."""
        hearers = self._hearers.get(hearer.client, [])
        if hearer not in hearers:
            return
        hearers.remove(hearer)
        if not hearers:
            del self._hearers[hearer.client]
            self._engine.hear(hearer.client, on=False)

    def route(self, wakes: Sequence[Wake]) -> None:
        """Send wakes to the connections of their clients."""
        for wake in wakes:
            client = wake.id[:CLIENT]
            if len(client) == CLIENT:
                if self._pushed is not None:
                    self._pushed(wake)
                hearers = self._hearers.get(client)
                if hearers:
                    self._wakes[()] += 1
                    hearers[-1].wake(frame_of(wake))
                continue
            frame = frame_of(wake)
            for each, hearers in list(self._hearers.items()):
                if each.startswith(client):
                    self._wakes[()] += 1
                    hearers[-1].wake(frame)


def frame_of(wake: Wake) -> bytes:
    """Return the message for a wake."""
    return encode(Woken(wake.id, wake.granted, wake.floor))


def _epoch(hearer: Hearer) -> int:
    return hearer.epoch
