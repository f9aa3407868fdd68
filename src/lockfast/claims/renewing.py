"""One renewal request: sends it, records the replies in the table, and logs what is in jeopardy."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from lockfast.claims.claim import Claim
from lockfast.claims.phases import HELD
from lockfast.claims.schedule import BEATS, FEWER_BEATS
from lockfast.claims.table import Table
from lockfast.errors import EngineError
from lockfast.port import Renewer
from lockfast.runtime.base import Clock

log = logging.getLogger("lockfast")
NAMED = 5  # leases that a warning names
CHUNK = 64  # claims per renewal request, so that a wake waits for at most one such request
MANY = 256  # claims per request of a heart that is behind, as a replica of the service sends them
BEHIND = 8 * CHUNK
"""So many claims are rarely due at the same time unless the heart is late. A request takes some
turns of an event loop, however few claims it has. In a loop with 200 busy tasks, requests of 64
were too few for 15,000 leases of ten seconds, and most of them were lost."""


def patience(claims: Sequence[Claim]) -> float:
    """Return how many seconds a renewal may take: a sixth of the shortest life, and at most 5, so
    that a lost request leaves time for two more attempts.
    """
    return min(5.0, min(claim.life for claim in claims) / 6.0)


def chunks(batches: Sequence[Sequence[Claim]]) -> list[Sequence[Claim]]:
    """Split batches of claims into requests, the shortest ttl first.

    One server of an ensemble, or one shard, may not answer while the others do. Waiting for it must
    not cost a lease of a short ttl that another server would renew.
    """
    parts = [part for batch in batches for part in _parts(batch)]
    ordered = sorted(parts, key=lambda part: part[0].life)
    size = CHUNK if sum(map(len, ordered)) < BEHIND else MANY
    return [
        batch[start : start + size] for batch in ordered for start in range(0, len(batch), size)
    ]


def _parts(batch: Sequence[Claim]) -> list[Sequence[Claim]]:
    """Split claims that end with their connection by what a replica can answer while its engine is
    silent: most about leases of a long ttl, nothing about waiters. There is one reply to a request.
    """
    if not batch[0].ask.departs:
        return [batch]
    parts: dict[tuple[bool, float], list[Claim]] = {}
    for claim in batch:
        parts.setdefault((claim.phase is not HELD, -claim.shape.ttl), []).append(claim)
    return [parts[key] for key in sorted(parts)]


async def renew(  # noqa: PLR0913, PLR0917  # two of them are limits of one time
    engine: Renewer,
    table: Table,
    clock: Clock,
    claims: Sequence[Claim],
    most: float,
    limit: float,
) -> list[Claim]:
    """Renew claims in one request. Return those that were in jeopardy until now, because this
    renewal was late.

    `most`, `limit`: the seconds that the request may take. It may take twice the `limit` if it is
    late already.
    """
    sent = clock()
    over = [claim for claim in claims if sent >= claim.limit]
    if over:  # `at_most` of these ended after the beat began
        table.postpone(over, sent)
        claims = [claim for claim in claims if sent < claim.limit]
        if not claims:
            return []
    # Early, a short deadline leaves time for another attempt. Later, the connection may be too
    # slow for that deadline, so it is doubled.
    early = all(sent < claim.until - claim.life / 2.0 for claim in claims)
    deadline = sent + min(most, limit if early else 2.0 * limit)
    late: list[Claim] = []
    try:
        standings = await engine.renew([claim.ask for claim in claims], deadline)
    except EngineError as error:
        worried, why = table.unanswered(claims, sent, clock()), str(error)
    else:
        table.beats = FEWER_BEATS if getattr(engine, "busy", False) else BEATS
        worried, late = table.renewed(claims, sent, standings, clock())
        why = ", ".join({str(each) for each in standings if isinstance(each, Exception)})
    if worried:
        log.warning(
            "a renewal failed, and the lease is in jeopardy: %s: %s. lockfast tries again until "
            "the lease expires in %.3g s. Check the engine and the network.",
            named(worried),
            why,
            max(min(claim.until for claim in worried) - clock(), 0.0),
        )
    return late


def named(claims: Sequence[Claim]) -> str:
    """Return the names and tokens of the first NAMED leases, for a log message."""
    more = f" and {len(claims) - NAMED} more" if len(claims) > NAMED else ""
    return ", ".join(_named(claim) for claim in claims[:NAMED]) + more


def _named(claim: Claim) -> str:
    if not claim.ticket:  # no request for it was answered
        return repr(claim.shape.name)
    number = "token" if claim.shape.exclusive else "ticket"
    return f"{claim.shape.name!r} ({number} {claim.ticket})"
