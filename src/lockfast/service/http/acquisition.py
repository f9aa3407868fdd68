"""`POST /v1/acquire`: one attempt to get a lock, which may wait.

Every exit without a lease gives the claim up, as everywhere in lockfast. Otherwise it would keep
its place, or be granted to nobody, until its ttl is over. A claim is kept if its client can find it
again: by the handle of an earlier 202, with which this request came, or by its `Idempotency-Key`.
"""

from __future__ import annotations

import asyncio
import time
from http import HTTPStatus

from lockfast.engines.remote.messages import Asked, Stood
from lockfast.port import LONGEST_WAIT
from lockfast.service.http import call
from lockfast.service.http.answer import AGAIN, UNAUTHORIZED, Answer, failed, problem
from lockfast.service.http.call import Failure, Origin
from lockfast.service.http.caller import Caller
from lockfast.service.http.departures import Departures
from lockfast.service.http.messages import Busy, Granted, Queued
from lockfast.service.http.polls import Poll, Polls
from lockfast.service.http.seal import Seal, Sealed
from lockfast.service.http.shapes import exclusive, holder, is_same, valid
from lockfast.service.replica import Replica

BEATS = 3.0  # renewals of a waiting claim, in the time for which the engine keeps it
SHORTEST_PAUSE, LONGEST_PAUSE = 0.02, 1.0  # seconds between two questions to the engine
GONE = "the claim is gone: it was released, broken, or not renewed in time. Acquire the lock again."


class Acquisition:
    """One request for a lock."""

    def __init__(  # noqa: PLR0913  # each is a part of the request
        self,
        replica: Replica,
        asked: Asked,
        wait: float,
        caller: Caller,
        epoch: int,
        *,
        resumed: bool,
        keyed: bool,
    ) -> None:
        """Take a claim. `resumed`: its client has a handle. `keyed`: the client can make its id
        again.
        """
        self._replica = replica
        self._asked = asked
        self._wait_ttl = min(asked.ttl, LONGEST_WAIT)
        self._caller = caller
        self._epoch = epoch
        self._resumed = resumed
        self._keyed = keyed
        self._known = asked.ticket, asked.granted  # as the handle has them
        self._now = asyncio.get_running_loop().time
        self._began = self._sent = self._now()
        if caller.who.expires is not None:  # the next request needs another token
            wait = min(wait, max(caller.who.expires - time.time(), 0.0))
        self._end = self._began + wait
        self._poll = Poll(asked.id, caller.who)
        self._doubt = False
        """Whether a copy of the claim was sent, and the engine has not said what became of it."""
        self._waited = 0.0
        self._there = resumed
        """Whether the engine may have the claim."""

    async def run(self, polls: Polls, departures: Departures, seal: Seal) -> Answer:
        """Return the answer."""
        replica, handed = self._replica, False
        polls.add(self._poll)
        try:
            answer = await self._settle(polls, seal)
            handed = answer.status in {HTTPStatus.OK, HTTPStatus.ACCEPTED}
        except Failure as failure:
            answer = failed(failure.fault)
        finally:
            polls.remove(self._poll, replica.hearing)
            self._caller.presence.end()
            lost = not handed or self._caller.presence.gone
            # A client that is not admitted any more cannot find its claim again.
            findable = (self._resumed or self._keyed) and not self._poll.denied
            if lost and self._there and not findable:
                departures.resign(self._origin, self._asked, doubt=self._doubt)
        return answer._replace(waited=self._waited)

    async def _settle(self, polls: Polls, seal: Seal) -> Answer:
        stood = await self._first()
        if self._poll.denied:
            return UNAUTHORIZED
        if stood is None:
            self._there = False
            return problem(HTTPStatus.GONE, "gone", GONE)
        if not (stood.granted or stood.ticket):  # it was not to wait, and is not in the queue
            self._there = False
            by = None if stood.blocker is None else holder(stood.blocker)
            return Answer(HTTPStatus.CONFLICT, Busy("busy", "another client has the lock", by))
        if not stood.granted and self._now() < self._end:
            found = await self._wait(stood, polls)
            if self._poll.denied:
                return UNAUTHORIZED
            if found is None:
                self._there = False
                return problem(HTTPStatus.GONE, "gone", GONE)
            stood = found
        return self._said(stood, seal)

    async def _first(self) -> Stood | None:
        """Ask the engine for the first time."""
        if self._resumed:
            return self._read(await call.renew(self._origin, self._asked, urgent=True))
        self._there = self._doubt = True
        try:
            stood = await call.claim(self._origin, self._asked, self._wait_ttl)
        except Failure as failure:
            if failure.fault.kind != "unavailable" or not failure.fault.sent:
                self._there = False
            raise
        self._doubt = False
        if stood is None and not self._keyed:  # a new id cannot be dead
            self._there = False
            raise Failure(call.TOO_LATE)
        return self._read(stood)

    async def _wait(self, stood: Stood, polls: Polls) -> Stood | None:
        """Wait until the claim is granted or gone, or the request must be answered."""
        if polls.full:
            return stood
        began = self._now()
        try:
            return await self._woken(stood, polls)
        finally:
            self._waited = self._now() - began

    async def _woken(self, stood: Stood, polls: Polls) -> Stood | None:
        poll, presence = self._poll, self._caller.presence
        polls.wait(poll, self._replica.hearing)
        presence.watch(poll.end)
        pause = SHORTEST_PAUSE
        error: Failure | None = None
        while poll.woken or not self._over():
            if not poll.woken:
                await poll.sleep(min(self._pause(stood, pause, error), self._end - self._now()))
                if self._over() and not poll.woken:
                    break
            urgent, poll.woken, sent = poll.woken or stood.recheck is not None, False, self._now()
            try:
                found = await call.renew(self._origin, self._asked, urgent=urgent)
            except Failure as failure:
                if failure.fault.denied:
                    raise
                error, pause = failure, min(pause * 2.0, LONGEST_PAUSE)
                continue
            error, pause, self._sent = None, SHORTEST_PAUSE, sent
            found = self._read(found)
            if found is None or found.granted:
                return found
            stood = found
        if error is not None:
            raise error
        return stood

    @property
    def _origin(self) -> Origin:
        return Origin(self._replica, self._poll.caller, self._epoch)

    def _over(self) -> bool:
        """Return whether the request must be answered now."""
        draining, gone = self._replica.draining, self._caller.presence.gone
        return self._poll.over or draining or gone or self._now() >= self._end

    def _pause(self, stood: Stood, pause: float, error: Failure | None) -> float:
        """Return for how many seconds nothing need be asked, unless a wake comes."""
        if error is not None:
            return pause
        least = min(self._wait_ttl, stood.left) / BEATS
        if stood.recheck is not None:
            least = min(least, stood.recheck)
        return max(least, pause)

    def _read(self, stood: Stood | None) -> Stood | None:
        """Note what the engine has said, since some engines need to know what their client knows.
        Return None if the claim is gone.
        """
        if stood is None or not is_same(stood, *self._known):
            return None
        if stood.ticket and not stood.left:  # its client has sent the handle to another replica
            raise Failure(call.OVERTAKEN)
        self._asked.ticket, self._asked.granted = stood.ticket, stood.granted
        return stood

    def _said(self, stood: Stood, seal: Seal) -> Answer:
        """Return the answer for a claim that is held or in the queue."""
        asked, ticket = self._asked, str(stood.ticket)
        sealed = Sealed(
            asked.id, asked.name, asked.ttl, asked.kind, asked.capacity, asked.weight,
            stood.ticket, stood.granted, self._keyed,
        )  # fmt: skip
        handle = seal.close(sealed, self._caller.subject)
        if stood.granted:
            waited = self._sent - self._began
            body = Granted(
                handle=handle,
                name=asked.name,
                token=ticket if exclusive(asked) else None,
                ticket=ticket,
                floor=str(stood.floor or stood.ticket),
                left=stood.left,
                valid=valid(waited + stood.left),
            )
            return Answer(HTTPStatus.OK, body)
        by = None if stood.blocker is None else holder(stood.blocker)
        left = max(stood.left - (self._now() - self._sent), 0.0)
        queued = Queued(handle, asked.name, ticket, stood.ahead, left, by)
        hurried = self._poll.over or self._replica.draining or self._now() < self._end
        return Answer(HTTPStatus.ACCEPTED, queued, AGAIN if hurried else {})
