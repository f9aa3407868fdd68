"""The guard's SQL statements, and the meaning of the server's errors. No driver, no I/O.

Only numbers, ids and hexadecimal digits are written into a statement, so nothing needs quoting.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from lockfast.errors import LockfastError, Unguarded
from lockfast.guards.leases import ended, remaining
from lockfast.guards.mark import Holder, Shown, refused, shown

STALE, UNSHOWN, AUTOCOMMIT, ENDED, OLD_VIEW = "LF001", "LF002", "LF003", "LF004", "LF005"
LEAVE = "CALL lockfast_guard.leave_v1()"
COMMIT = "CALL lockfast_guard.commit_v1()"
ROLLBACK = "CALL lockfast_guard.rollback_v1()"
FORGET = "CALL lockfast_guard.forget_v1()"
STILL = "CALL lockfast_guard.still_v1()"
AGAIN = frozenset({1020, 1205, 1213})
"""A record that has changed since the snapshot, a lock timeout, a deadlock. Perhaps a later holder
has raised the mark: then the lease is stale. Otherwise the caller may try again."""
CUT_OFF = frozenset({0, 1927, 2006, 2013, 4031})
"""The connection is closed, perhaps because the client was paused for longer than its lease was
valid. The server has rolled back. PyMySQL raises 0 if it has noticed that before."""
NO_PROCEDURE = 1305
OVER = (
    "the guarded transaction had ended before its block did: by a commit, a rollback or a DDL "
    "statement in the block, or by a deadlock that the block caught. The guard rejects later "
    "statements, because it has not checked their transaction. Leave the block, and begin another "
    "one."
)
INSTALL = (
    "the schema lockfast_guard is not on this server: call lockfast.guards.mysql.install once, "
    "with a connection"
)
_CODE = re.compile(r"lockfast (LF00[0-9]): (.*)", re.DOTALL)
_STALE = re.compile(r"the mark is at ([0-9]+), refused ([0-9a-f]{32})")
_ID = re.compile(r"[0-9a-f]{32}")


def beginning(leases: Sequence[Holder]) -> str:
    """Return the statement that begins a transaction and checks the leases in it."""
    return f"CALL lockfast_guard.begin_v1({_arguments(leases)})"


def entering(leases: Sequence[Holder], *, within: bool = False) -> str:
    """Return the statement that checks the leases in a transaction, before its first read.

    `within`: the transaction is already guarded by another block.
    """
    return f"CALL lockfast_guard.enter_v1({_arguments(leases)}, {within:d})"


def sealing(leases: Sequence[Holder]) -> str:
    """Return the statement that raises the marks, in a transaction of its own."""
    return f"CALL lockfast_guard.seal_v1({_arguments(leases)})"


def raising(leases: Sequence[Holder]) -> str:
    """Return the statement that raises the marks in the present transaction."""
    return f"CALL lockfast_guard.raise_v1({_arguments(leases)})"


def _arguments(leases: Sequence[Holder]) -> str:
    seconds = math.ceil(remaining(leases))
    # In the order of names: two transactions under the same two locks must not deadlock.
    return f"'{''.join(map(_packed, sorted(map(shown, leases))))}', {seconds:d}"


def _packed(at: Shown) -> str:
    if not _ID.fullmatch(at.id):
        raise ValueError(f"not the id of a claim: {at.id!r}")
    name = at.name.encode().hex().upper()  # as HEX() writes it
    return f"{name} {at.token:d} {at.id} {at.floor:d} {at.shared:d};"


def number_of(error: BaseException) -> int | None:
    """Return the number of a server's error.

    It is the first argument, or with MariaDB's own driver the attribute `errno`.
    """
    first = error.args[0] if error.args else None
    number = first if isinstance(first, int) else getattr(error, "errno", None)
    return number if isinstance(number, int) else None


def _text_of(error: BaseException) -> str:
    """Return the server's message: the first argument that is text. MySQL's own driver has a third
    argument, the SQLSTATE.
    """
    return next((each for each in error.args if isinstance(each, str)), "")


def code_of(error: BaseException) -> str | None:
    """Return which of the guard's own refusals an error is. None: it is something else."""
    found = _CODE.search(str(error))
    return found[1] if found else None


def again(error: BaseException) -> bool:
    """Return whether the error may be due to a later holder, whose mark would show it."""
    return number_of(error) in AGAIN or code_of(error) == OLD_VIEW


def refusal(error: BaseException, leases: Sequence[Holder]) -> LockfastError | None:
    """Return the lockfast error for a refusal, and mark the refused lease as LOST.

    Returns None if the server's error has another cause.
    """
    number, text = number_of(error), _text_of(error)
    if number in CUT_OFF:
        return ended(leases)
    if number == NO_PROCEDURE and "lockfast_guard." in text:
        return Unguarded(INSTALL)
    found = _CODE.search(text)
    code, said = found.groups() if found else ("", "")
    if code == STALE and (stale := _STALE.search(said)):
        whose = [lease for lease in leases if lease.id == stale[2]] or leases
        return refused(whose[0], int(stale[1]))
    return Unguarded(said if code == UNSHOWN else OVER) if code in {UNSHOWN, ENDED} else None
