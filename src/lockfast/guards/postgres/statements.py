"""What a guard says to PostgreSQL, and how a refusal reads. No driver, no I/O.

Nothing but numbers, ids and hexadecimal digits is ever written into a statement, so there is
nothing to quote, and it can go in one message with the BEGIN in front of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

from lockfast.claims.release import lost
from lockfast.errors import LeaseLost, LockfastError, Loss, Unguarded
from lockfast.guards.mark import Holder, Shown, refused, shown
from lockfast.primitives.lease import LeaseCore

STALE, UNSHOWN, GONE = "LF001", "LF002", "LF003"
SLEPT = "25P03"
"""The client paused for longer than its lease was good: the server has rolled back, and hung up."""
AGAIN = frozenset({"40001", "40P01", "55P03"})
"""A serialization failure, a deadlock, a lock that was not had in time: the mark may have been
raised since, and decides what it was."""
AFAR = 10.0
"""For how many seconds a transaction may wait or pause under what a request has shown: only the
holder knows how much of its lease is left."""
READ_COMMITTED = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED"
"""In front of a seal: at a higher level it would fail whenever another is at the mark."""
BLOCK = "SELECT pg_catalog.current_setting('lockfast.block', true)"
"""Ask which block this transaction was begun for. The setting ends with the transaction: behind a
COMMIT AND CHAIN, or a COMMIT and a BEGIN, in the block there is none, though the status is the same
as before."""


class Diagnosis(Protocol):
    """What a driver says of the server's error."""

    @property
    def message_primary(self) -> str | None:
        """What is wrong, for people."""

    @property
    def message_detail(self) -> str | None:
        """The same, for `refusal`."""


class Failure(Protocol):
    """An error of psycopg's, by whatever it was wrapped."""

    @property
    def sqlstate(self) -> str | None:
        """The server's code; None where the server said nothing."""

    @property
    def diag(self) -> Diagnosis:
        """What else the server said."""


_entries: WeakKeyDictionary[LeaseCore, str] = WeakKeyDictionary()
"""What stays the same in front of all writes of a lease. Weakly: a lease lives by its holder."""


def entering(
    leases: Sequence[Holder], *, check_lease: bool = False, within: bool = False
) -> list[str]:
    """Write the check that opens a transaction: the first thing in it, ahead of every read.

    It also says for which block the transaction is, unless it is `within` another block.
    """
    lease = leases[0] if len(leases) == 1 and not check_lease and not within else None
    if isinstance(lease, LeaseCore):  # in front of nearly every write, so it is short
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
    """Return what `BLOCK` answers in the transaction that these leases have entered."""
    return leases[0].id if len(leases) == 1 else min(map(shown, leases)).id


def still(block: str) -> str:
    """Write a statement that fails where `BLOCK` answers something else."""
    return (
        "SELECT pg_catalog.current_setting(CASE WHEN pg_catalog.current_setting('lockfast.block', "
        f"true) OPERATOR(pg_catalog.=) '{block}' THEN 'lockfast.block' "
        "ELSE 'lockfast: the guarded transaction has ended' END)"
    )


def sealing(leases: Sequence[Holder]) -> list[str]:
    """Write a seal, a transaction of its own."""
    return _each("seal_v1", leases)


def ensure_held(leases: Sequence[Holder]) -> None:
    """Raise if one of them has ended, as far as can be known here."""
    for lease in leases:
        if isinstance(lease, LeaseCore):
            lease.ensure_held()


def _left(lease: Holder) -> float:
    return lease.remaining if isinstance(lease, LeaseCore) else AFAR


def _each(procedure: str, leases: Sequence[Holder], *, named: bool = False) -> list[str]:
    if not leases:
        raise TypeError("a guard needs a lease")
    ms = math.ceil(min(map(_left, leases)) * 1000.0) or 1  # 0 would be for ever
    # In the order of names: two transactions under the same two locks must not block each other.
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
    """Write an id so that it also names the block: `set_config` gives back what it has set."""
    return f"pg_catalog.set_config('lockfast.block', '{id_}', true)"


def _name(at: Shown) -> str:
    return f"E'\\\\x{at.name.encode().hex()}'"


def _id(at: Shown) -> str:
    if not (at.id.isascii() and at.id.isalnum()):
        raise ValueError(f"not the id of a claim: {at.id!r}")
    return at.id


def refusal(error: Failure, leases: Sequence[Holder]) -> LockfastError | None:
    """Read a refusal, and tell the lease that was refused; None if it was something else."""
    state, said = error.sqlstate, error.diag
    if state == UNSHOWN:
        return Unguarded(said.message_primary or "no token was shown")
    if state == SLEPT:
        ours = [lease for lease in leases if isinstance(lease, LeaseCore)]
        ended = [lease for lease in ours if lease.loss is not None]
        return lost(ended[0].claim) if ended else None
    if state not in (STALE, GONE):
        return None
    current, _, name = (said.message_detail or "0 ").partition(" ")
    whose = [lease for lease in leases if lease.name.encode().hex() == name] or leases
    lease = whose[0]
    if state == STALE:
        return refused(lease, int(current))
    if isinstance(lease, Shown):
        return LeaseLost(lease.name, lease.token, Loss.GONE)
    lease.fenced(Loss.GONE)
    return lost(lease.claim)
