"""Gives up claims that nobody has a lease or a handle of."""

from __future__ import annotations

import asyncio

from lockfast.engines.remote.messages import Asked, Gone, Reply
from lockfast.service.http.call import Origin, resignation
from lockfast.service.replica import Replica

MOST = 1_000  # resignations that are tried again
PAUSE = 0.5  # seconds before the second attempt, and twice as long before each one after that


class Departures:
    """Resignations that no request waits for. One that fails is tried again until its ttl is over,
    since the claim has ended by itself then.
    """

    def __init__(self, replica: Replica) -> None:
        """Begin with none."""
        self.replica = replica
        self.retrying = 0

    def resign(self, origin: Origin, asked: Asked, *, doubt: bool) -> None:
        """Remove a claim soon. `doubt`: it was sent, and the engine has not answered."""
        _Departure(self, origin, asked, doubt=doubt).send()


class _Departure:
    client = ""
    ended = False
    kept = None

    def __init__(self, among: Departures, origin: Origin, asked: Asked, *, doubt: bool) -> None:
        self._among = among
        self._asked = asked
        self._epoch = origin.epoch
        self.caller = origin.who
        self._doubt = doubt
        self._pause = PAUSE
        self._until = asyncio.get_running_loop().time() + asked.ttl

    def send(self) -> None:
        request = resignation(self._asked, doubt=self._doubt)
        self._among.replica.claims.resign(self, self._epoch, request)

    def answer(self, reply: Reply) -> None:
        loop, among = asyncio.get_running_loop(), self._among
        failed = not isinstance(reply, Gone) or any(
            fault.kind == "unavailable" for fault in reply.faults
        )
        late = loop.time() + self._pause >= self._until
        if failed and not late and among.retrying < MOST and not among.replica.draining:
            among.retrying += 1
            loop.call_later(self._pause, self._again)

    def _again(self) -> None:
        self._among.retrying -= 1
        self._pause *= 2.0
        if not self._among.replica.draining:
            self.send()
