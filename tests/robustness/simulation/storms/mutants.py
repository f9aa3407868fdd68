"""Ways to build it that a storm must find out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from lockfast.engines.remote import identity
from lockfast.engines.remote.line import Line
from lockfast.engines.remote.messages import Claim, Failed
from lockfast.errors import EngineUnavailable
from lockfast.service.answers import Client
from lockfast.service.claim_requests import ClaimRequests
from lockfast.service.entry import Entry
from lockfast.service.heart import Heart
from lockfast.service.replies import fault
from tests.robustness.simulation.storms import database
from tests.robustness.simulation.storms.database import Queues
from tests.robustness.simulation.storms.plan import TTL

_claim, _renew, _greet, _copy = ClaimRequests.claim, Heart.renew, Line._greet, Queues.copy
MANY = 8  # renewals that wait at a replica
_shedding: dict[Heart, float] = {}
"""Until when each replica refuses renewals."""


def refuse_renewals(self: Heart, entry: Entry) -> None:
    """Shed load by the requests that must not be shed, until the load has been low for a ttl."""
    now = self._runtime.now()
    if len(self._pending) >= MANY:
        _shedding[self] = now + TTL
    if now < _shedding.get(self, 0.0):
        entry.put(EngineUnavailable("too many requests", sent=False))
    else:
        _renew(self, entry)


def refuse_what_was_sent(self: ClaimRequests, client: Client, epoch: int, request: Claim) -> None:
    """Say that nothing was sent, though the claim was passed on."""
    _claim(self, client, epoch, request)
    if self._claims._calls > 1:  # the database is slow
        error = fault(EngineUnavailable("too many requests", sent=False))
        client.answer(Failed(request.n, error))


def be_another(self: Line) -> None:
    """Greet a new replica under another name, and forget which claims one has."""
    who = self._owner.identity
    if who.epoch:
        who.secret = identity.new_secret()
        who.client = identity.client_of(who.secret)
    _greet(self)


def forget_tickets(self: Queues) -> Queues:
    """Take over without the counter."""
    twin = _copy(self)
    twin.last = 0
    return twin


def count(last: int, now: int) -> int:
    """Return the next ticket, whatever the time is."""
    del now
    return last + 1


MUTANTS: dict[str, Sequence[tuple[Any, str, Callable[..., Any]]]] = {
    "renewals are refused under load": ((Heart, "renew", refuse_renewals),),
    "what was sent is called unsent": ((ClaimRequests, "claim", refuse_what_was_sent),),
    "a client that moves has another name": ((Line, "_greet", be_another),),
    "tickets are forgotten": ((Queues, "copy", forget_tickets), (database, "mint", count)),
}


@contextmanager
def switched_in(name: str | None) -> Iterator[None]:
    """Build it that way for a while."""
    with ExitStack() as patches:
        for each in MUTANTS[name] if name else ():
            patches.enter_context(patch.object(*each))
        yield
