"""Mutants of the code that runs in the client: what is put in place of our own functions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from kazoo.protocol.serialization import Sync

from lockfast.claims import acquire
from lockfast.claims.claim import Claim
from lockfast.claims.table import Table
from lockfast.core.ballot import Ballot
from lockfast.engines.redis.engine import RedisEngine
from lockfast.engines.redis.keys import command
from lockfast.engines.zookeeper.proof import Proof
from lockfast.guards.mark import Holder
from lockfast.guards.redis.guard import RedisGuardCore
from lockfast.port import shape
from lockfast.primitives import lock
from tests.robustness.simulation.mutants import (
    answered_from_the_reply,
    observe_the_whole_ttl,
    renewed_from_the_reply,
)

_acquire = acquire.acquire
_ballot = Ballot.__init__
MINT = "local t = redis.call('TIME') return string.format('%.0f', t[1] * 1000000 + t[2])"
WAIT = 0.4


async def acquire_then_mint(session: Any, *args: Any, **named: Any) -> Any:  # noqa: ANN401  # handed on
    """Ask for the token in a step of its own; the process's id tells the harness whose it is."""
    bearer = await _acquire(session, *args, **named)
    redis: RedisEngine = session.engine
    address = redis._topology.find(0)
    assert address is not None
    packet = command("EVAL", MINT, 0, f"mint-{os.getpid()}")
    token = await redis._transport.call(address, packet, session.runtime.now() + 5.0)
    bearer.claim.ticket = int(token)
    return bearer


async def seal_nothing(self: RedisGuardCore, lease: Holder) -> None:
    """Leave the mark as it is."""


def ballot_of_one(self: Ballot, nodes: int) -> None:
    """Be content with the first node that accepts."""
    _ballot(self, nodes)
    self.quorum = 1


def from_the_reply() -> None:
    Table.answered = answered_from_the_reply  # type: ignore[method-assign]  # a mutant
    Table.renewed = renewed_from_the_reply  # type: ignore[method-assign]  # a mutant


def of_the_whole_ttl() -> None:
    Claim.observe = observe_the_whole_ttl  # type: ignore[assignment,method-assign]  # a mutant


def short_waits() -> None:
    vars(shape)["LONGEST_WAIT"] = WAIT  # `texts` has what the programs inside Redis know of it


def minted_after_the_grant() -> None:
    if vars(lock)["acquire"] is not _acquire:
        raise AssertionError("a lock acquires by another way now")
    vars(lock)["acquire"] = acquire_then_mint


def without_a_seal() -> None:
    RedisGuardCore._seal = seal_nothing  # type: ignore[method-assign]  # a mutant


def without_a_majority() -> None:
    Ballot.__init__ = ballot_of_one  # type: ignore[method-assign]  # a mutant


def proven_by_a_read() -> None:
    def send(self: Proof, transport: Any, session: Any, path: str) -> None:  # noqa: ANN401  # as it is
        self._transport, self._session, self.sent = transport, session, transport.now()
        self._reply = session.send(transport, Sync(path))

    Proof.__init__ = send  # type: ignore[method-assign]  # a mutant


PATCHES: Mapping[str, Callable[[], None]] = {
    "validity from the reply": from_the_reply,
    "validity of a whole ttl": of_the_whole_ttl,
    "short waits": short_waits,
    "token minted after the grant": minted_after_the_grant,
    "a guard that does not seal": without_a_seal,
    "a ballot without the majority": without_a_majority,
    "a session proven by a read": proven_by_a_read,
}
