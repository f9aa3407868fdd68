"""Watches the claims of a replica: decides by rights and limits, counts, and writes the audit log.

It knows the claims that came by this replica, until they end or are not renewed here any more. It
is not told what happens at another replica.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from lockfast.claims.break_records import read as read_record
from lockfast.engines.remote.messages import Asked
from lockfast.port import Ask, Standing, Wake
from lockfast.runtime.base import Clock
from lockfast.service.audit import Audit, Field
from lockfast.service.caller import Caller
from lockfast.service.entry import Answer
from lockfast.service.figures import Figures
from lockfast.service.rights import BREAK, CLAIM, Denied
from lockfast.service.usage import Usage

SWEEP = 1.0  # seconds between two searches for claims that were not renewed
MOST = 200_000  # claims that are watched


class Watched:
    """A claim that is in the engine, as far as this replica knows."""

    __slots__ = ("caller", "granted", "id", "name", "new", "queue", "token", "until", "usage")

    def __init__(self, caller: Caller, id_: str, name: str, until: float, *, queue: bool) -> None:
        """Begin as a waiter, of which the engine has not answered yet."""
        self.caller = caller
        self.id = id_
        self.name = name
        self.until = until
        self.queue = queue
        """Whether it may wait."""
        self.granted = False
        self.new = True
        """Whether the engine has not answered yet."""
        self.token = 0
        self.usage: Usage | None = caller.usage
        if self.usage is not None:
            self.usage.claims += 1
            self.usage.waiters += 1

    def grant(self) -> None:
        """Note that it does not wait any more."""
        if not self.granted:
            self.granted = True
            if self.usage is not None:
                self.usage.waiters -= 1

    def end(self) -> None:
        """Stop counting it."""
        if self.usage is not None:
            self.usage.claims -= 1
            self.usage.waiters -= not self.granted


class Asker(Protocol):
    """The connection, or HTTP request, with which a claim came."""

    caller: Caller


class Onlooker(Protocol):
    """Is told what happens to locks."""

    def write(self, event: str, **fields: Field) -> None:
        """Take an event with the fields of a line of the audit log. It must not wait, nor raise."""
        ...


class Watch:
    """All claims of a replica that have to be watched."""

    def __init__(self, clock: Clock, figures: Figures) -> None:
        """Begin with none, and without an audit log."""
        self.audit: Audit | None = None
        self.onlooker: Onlooker | None = None
        """Is told the same as the audit log."""
        self._now = clock
        self._denied = figures.denied.counts
        self._claims: dict[tuple[str, str], Watched] = {}
        """By id and name: a client could use one id for several names."""
        self._ids: dict[str, Watched] = {}
        """The last one of each id."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def logs(self) -> bool:
        """Whether anybody is told what happens."""
        return self.audit is not None or self.onlooker is not None

    def checks(self, caller: Caller) -> bool:
        """Return whether `claim` has something to do for the claims of a client."""
        return self.logs or caller.rights is not None or caller.stamp is not None

    def wants(self, caller: Caller) -> bool:
        """Return whether the claims of a client have to be watched."""
        usage = caller.usage
        return self.logs or (usage is not None and usage.counts_claims)

    def claim(self, caller: Caller, ask: Ask, *, new: bool) -> None:
        """Check a claim, or its renewal unless `new`, and write into it whose it is. Raise `Denied`
        if it may not be made.
        """
        if new and ask.fixed is None:  # it is not made: the client learns the engine's time
            return
        shape = ask.shape
        known = self._claims.get((ask.id, shape.name))
        first = new and known is None
        if known is not None and not known.queue:
            ask.queue = False  # a copy has the same content: it was not counted as one that waits
        if caller.rights is not None:
            try:
                caller.rights.require(CLAIM, shape.name)
                if caller.usage is not None:
                    caller.usage.require_ttl(shape.ttl)
                    if first:
                        caller.usage.require_room(queue=ask.queue)
            except Denied as error:
                self.deny(caller, error, shape.name, ask.id)
                raise
        if caller.stamp is not None:
            ask.payload = caller.stamp.on(ask.payload)
        if first and self.wants(caller):
            self._add(caller, ask.id, shape.name, shape.ttl, queue=ask.queue)

    def break_(self, caller: Caller, ask: Ask) -> None:
        """Raise `Denied` if a client may not break this lock."""
        self.require(caller, BREAK, ask.shape.name, ask.id)

    def require(
        self, caller: Caller, verb: str, name: str, id_: str = "", *, exact: bool = True
    ) -> None:
        """Raise `Denied` if a client may not do this to a lock, or to all with a prefix."""
        if caller.rights is not None:
            try:
                caller.rights.require(verb, name, exact=exact)
            except Denied as error:
                self.deny(caller, error, name, id_)
                raise

    def deny(self, caller: Caller, error: Denied, name: str, id_: str = "") -> None:
        """Count and log what is denied."""
        self._denied[error.verb or "limit",] += 1
        if self.logs:
            why = str(error)
            self._log("denied", caller, name, id_, verb=error.verb or None, reason=why)

    def stood(self, caller: Caller, asked: Asked, answer: Answer, *, new: bool) -> None:
        """Take the engine's answer to a claim, or to its renewal unless `new`."""
        claim = self._claims.get((asked.id, asked.name))
        if isinstance(answer, Exception):
            return  # it may have been made: then it ends with its ttl
        if new and (asked.not_after is None or (claim and not claim.new and answer is None)):
            return  # nothing was claimed, which says nothing about an earlier claim with this id
        if not isinstance(answer, Standing) or not answer.ticket:
            if claim is not None:
                self._drop(claim)
            if not new and (asked.granted or (claim is not None and claim.granted)):
                token = (0 if claim is None else claim.token) or asked.ticket
                self._log("lost", caller, asked.name, asked.id, token=token)
            return
        if claim is None:
            claim = self._add(caller, asked.id, asked.name, asked.ttl)
            if not new and answer.granted and asked.granted:
                claim.grant()
                claim.token = answer.ticket
                self._log("moved", caller, asked.name, asked.id, token=answer.ticket)
        claim.caller, claim.new = caller, False
        # A claim that comes again never shortens its lease. On some engines a renewal does.
        until = self._now() + max(asked.ttl, answer.left)
        claim.until = max(claim.until, until) if new else until
        if answer.granted and not claim.granted:
            self._grant(claim, answer.ticket)
        claim.token = answer.ticket

    def pushed(self, wake: Wake) -> None:
        """Note that the engine has granted a claim that was waiting."""
        claim = self._ids.get(wake.id)
        if claim is not None and wake.granted and not claim.granted:
            self._grant(claim, claim.token)

    def removed(self, caller: Caller, asked: Asked, answer: Answer, *, broken: bool) -> None:
        """Take the engine's answer to a resignation, or to a break."""
        if isinstance(answer, Exception) or (broken and not answer):
            return
        claim = self._claims.get((asked.id, asked.name))
        granted = asked.granted or (claim is not None and claim.granted)
        if claim is not None:
            self._drop(claim)
        # A client could write any token into the request.
        token = (0 if claim is None else claim.token) or asked.ticket
        if broken and answer:
            self._log("broken", caller, asked.name, asked.id, token=token)
        elif answer and granted:
            self._log("released", caller, asked.name, asked.id, token=token)

    def departed(self, caller: Caller, ask: Ask) -> None:
        """Note that a claim has ended with its connection."""
        claim = self._claims.get((ask.id, ask.shape.name))
        if claim is not None:
            self._drop(claim)
        if ask.granted or (claim is not None and claim.granted):
            token = (0 if claim is None else claim.token) or ask.ticket
            self._log("disconnected", caller, ask.shape.name, ask.id, token=token)

    def broken(self, caller: Caller, name: str, id_: str, token: int, reason: str) -> None:
        """Log that a user of the dashboard has broken a lock."""
        claim = self._claims.get((id_, name))
        if claim is not None:
            self._drop(claim)
        self._log("broken", caller, name, id_, token=token)
        self._log("reason", caller, name, id_, token=token, reason=reason)

    def recorded(self, caller: Caller, name: str, record: bytes) -> None:
        """Log the reason of a break."""
        found = read_record(record)
        if found is not None and self.logs:
            self._log("reason", caller, name, found.id, token=found.ticket, reason=found.reason)

    def _add(
        self, caller: Caller, id_: str, name: str, ttl: float, *, queue: bool = True
    ) -> Watched:
        if len(self._claims) >= MOST:
            self._drop(next(iter(self._claims.values())))
        claim = Watched(caller, id_, name, self._now() + ttl, queue=queue)
        self._claims[id_, name] = self._ids[id_] = claim
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP, self._sweep)
        return claim

    def _drop(self, claim: Watched) -> None:
        if self._claims.pop((claim.id, claim.name), None) is not None:
            claim.end()
            if self._ids.get(claim.id) is claim:
                del self._ids[claim.id]

    def _grant(self, claim: Watched, token: int) -> None:
        claim.grant()
        self._log("granted", claim.caller, claim.name, claim.id, token=token)

    def _sweep(self) -> None:
        """Forget the claims that were not renewed here for a ttl."""
        self._timer = None
        now = self._now()
        for claim in [each for each in self._claims.values() if each.until <= now]:
            self._drop(claim)
            if claim.granted:
                self._log("expired", claim.caller, claim.name, claim.id, token=claim.token)
        if self._claims:
            self._timer = asyncio.get_running_loop().call_later(SWEEP, self._sweep)

    def close(self) -> None:
        """Watch nothing more, and write the end of the audit log."""
        if self._timer is not None:
            self._timer.cancel()
        if self.audit is not None:
            self.audit.close()

    def _log(  # noqa: PLR0913  # the fields of a line
        self,
        event: str,
        caller: Caller,
        name: str,
        id_: str = "",
        *,
        token: int = 0,
        verb: str | None = None,
        reason: str = "",
    ) -> None:
        for log in (self.audit, self.onlooker):
            if log is not None:
                log.write(
                    event,
                    subject=caller.name,
                    address=caller.address,
                    lock=name,
                    token=token or None,
                    id=id_,
                    verb=verb,
                    reason=reason,
                )
