"""The guard's SQL statements, and the meaning of PostgreSQL's errors. No driver, no I/O.

Only numbers, ids and hexadecimal digits are written into a statement. So nothing needs quoting, and
a statement can be sent in one message together with the BEGIN before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

from lockfast.claims.release import lost
from lockfast.errors import LeaseLost, LockfastError, Loss, Unguarded
from lockfast.guards.leases import ended, remaining
from lockfast.guards.mark import Holder, Shown, refused, shown
from lockfast.primitives.lease import LeaseCore

STALE, UNSHOWN, GONE = "LF001", "LF002", "LF003"
SLEPT = "25P03"
"""The client was paused in a transaction for longer than its lease was valid. The server has rolled
back and closed the connection."""
AGAIN = frozenset({"40001", "40P01", "55P03"})
"""A serialization failure, a deadlock, a lock timeout. Perhaps a later holder has raised the mark:
then the lease is stale. Otherwise the caller may try again."""
READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""Precedes a seal. At a higher level, a seal would fail whenever another transaction has changed
the mark at the same time."""
BLOCK = "SELECT pg_catalog.current_setting('lockfast.block', true)"
"""Reads for which block the transaction was begun. The setting ends with its transaction. If the
block runs COMMIT AND CHAIN, or COMMIT and BEGIN, the connection is in a transaction as before, but
the setting is empty."""


class Diagnosis(Protocol):
    """The details of a server's error, as psycopg has them."""

    @property
    def message_primary(self) -> str | None:
        """The error message."""

    @property
    def message_detail(self) -> str | None:
        """The detail of the error. `refusal` parses it."""


class Failure(Protocol):
    """An error of psycopg."""

    @property
    def sqlstate(self) -> str | None:
        """The SQLSTATE, or None if the error did not come from the server."""

    @property
    def diag(self) -> Diagnosis:
        """The details of the error."""


_entries: WeakKeyDictionary[LeaseCore, str] = WeakKeyDictionary()
"""The part of `enter_v1` that is the same for all writes of a lease. Weak keys, because the cache
must not keep a lease alive."""


def entering(
    leases: Sequence[Holder], *, check_lease: bool = False, within: bool = False
) -> list[str]:
    """Return the statements that check the leases. They come first in a transaction, before reads.

    They also set for which block the transaction is (`BLOCK`), unless it is `within` another block.
    """
    lease = leases[0] if len(leases) == 1 and not check_lease and not within else None
    if isinstance(lease, LeaseCore):  # nearly every write comes here, so it is kept fast
        entry = _entries.get(lease)
        if entry is None:
            at = shown(lease)
            entry = _entries[lease] = _call("enter_v1", at, _named(_id(at)))
        return [f"{entry}'{math.ceil(lease.remaining * 1000.0) or 1}')"]
    calls = _each("enter_v1", leases, named=not within)
    if check_lease:
        shows = map(shown, leases)
        calls += [f"CALL lockfast_guard.held_v1({_name(at)}, '{_id(at)}')" for at in shows]
    return calls


def block_of(leases: Sequence[Holder]) -> str:
    """Return the value that `BLOCK` must have in the transaction of these leases."""
    return leases[0].id if len(leases) == 1 else min(map(shown, leases)).id


def still(block: str) -> str:
    """Return a statement that fails unless `BLOCK` has the value `block`."""
    return (
        "SELECT pg_catalog.current_setting(CASE WHEN pg_catalog.current_setting('lockfast.block', "
        f"true) OPERATOR(pg_catalog.=) '{block}' THEN 'lockfast.block' "
        "ELSE 'lockfast: the guarded transaction has ended' END)"
    )


def sealing(leases: Sequence[Holder]) -> list[str]:
    """Return the statements that raise the marks, to be committed in a transaction of their own."""
    return _each("seal_v1", leases)


def _each(procedure: str, leases: Sequence[Holder], *, named: bool = False) -> list[str]:
    ms = math.ceil(remaining(leases) * 1000.0) or 1  # for PostgreSQL, 0 means no timeout
    # In the order of names: two transactions under the same two locks must not deadlock.
    shows = sorted(map(shown, leases))
    ids = [f"'{_id(at)}'" for at in shows]
    if named:
        ids[0] = _named(_id(shows[0]))
    pairs = zip(shows, ids, strict=True)
    return [f"{_call(procedure, at, id_)}'{ms}')" for at, id_ in pairs]


def _call(procedure: str, at: Shown, id_: str) -> str:
    return (
        f"CALL lockfast_guard.{procedure}({_name(at)}, {at.token:d}, {id_}, {at.floor:d}, "
        f"{'true' if at.shared else 'false'}, "
    )


def _named(id_: str) -> str:
    """Return SQL for an id that also sets `BLOCK`: `set_config` returns the value that it sets."""
    return f"pg_catalog.set_config('lockfast.block', '{id_}', true)"


def _name(at: Shown) -> str:
    return f"E'\\\\x{at.name.encode().hex()}'"


def _id(at: Shown) -> str:
    if not (at.id.isascii() and at.id.isalnum()):
        raise ValueError(f"not the id of a claim: {at.id!r}")
    return at.id


def refusal(error: Failure, leases: Sequence[Holder]) -> LockfastError | None:
    """Return the lockfast error for a refusal, and mark the refused lease as LOST.

    Returns None if the server's error has another cause.
    """
    state, said = error.sqlstate, error.diag
    if state == UNSHOWN:
        return Unguarded(said.message_primary or "no token was shown")
    if state == SLEPT:
        return ended(leases)
    if state not in (STALE, GONE):
        return None
    current, _, name = (said.message_detail or "0 ").partition(" ")
    whose = [lease for lease in leases if lease.name.encode().hex() == name] or leases
    lease = whose[0]
    if state == STALE:
        return refused(lease, int(current))
    if isinstance(lease, Shown):
        return LeaseLost(lease.name, lease.token, Loss.GONE, exclusive=not lease.shared)
    lease.fenced(Loss.GONE)
    return lost(lease.claim)
