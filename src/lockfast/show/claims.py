"""Formats claims for people: in words, as the fields of `--json`, and grouped by name."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from lockfast.claims.payload import Who
from lockfast.plain import plain
from lockfast.port import Kind
from lockfast.primitives.lock import Holder


class Name(NamedTuple):
    """The name of a lock, and the claims on it in the order of the queue."""

    name: str
    holders: list[Holder]
    waiters: list[Holder]


def by_name(claims: Iterable[Holder]) -> list[Name]:
    """Group claims by name. They must be sorted by name already."""
    return [
        Name(name, [one for one in queue if one.granted], [one for one in queue if not one.granted])
        for name, group in groupby(claims, key=lambda each: each.name)
        for queue in [list(group)]
    ]


def fields(claim: Holder) -> dict[str, object]:
    """Return the fields of a claim for `--json`. Numbers that may not fit a float are strings."""
    return {
        "name": claim.name,
        "state": "holds" if claim.granted else "waits",
        "token": None if claim.token is None else str(claim.token),
        "ticket": str(claim.ticket),
        **claim.who._asdict(),
        "value": claim.value,
        "left": round(claim.left, 3),
        "kind": claim.kind.words,
        "weight": claim.weight,
        "capacity": claim.capacity,
        "id": claim.id,
    }


def bearer(claim: Holder) -> str:
    """Return the service or worker that made a claim, and its pid."""
    return bearer_of(claim.who)


def bearer_of(who: Who) -> str:
    """Return the service or worker that has described itself so, and its pid."""
    return plain(f"{who.service or who.worker} pid {who.pid}")


def described(claim: Holder) -> str:
    """Return the full description of who made a claim."""
    return plain(str(claim.who))


def share(claim: Holder) -> str:
    """Return the token of an exclusive claim, or the part of a shared lock that the claim has."""
    if claim.exclusive:
        return str(claim.ticket)
    if claim.kind is Kind.READ_WRITE:
        return "reader"
    return f"{claim.weight} of {claim.capacity}"


def age(claim: Holder) -> str:
    """Return how long ago the claim was made, from the wall clocks of its machine and of ours."""
    return span(time.time() - claim.who.since) if claim.who.since else "?"


def span(seconds: float) -> str:
    """Format a duration for people: 12 s, 3 min, 5 h, 2 d."""
    seconds = max(seconds, 0.0)
    for unit, size, limit in (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800)):
        if seconds < limit:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.0f} d"
