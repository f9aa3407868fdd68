"""What the column forms of the SQL guards share: query parameters, and keys of no single row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from lockfast.guards.mark import Holder, shown

Row = TypeVar("Row")


def parameters(lease: Holder) -> dict[str, object]:
    """Return the query parameters of a lease. Raise `TypeError` for a permit of a semaphore."""
    at = shown(lease)
    return {
        "lockfast_token": at.token,
        "lockfast_id": at.id,
        "lockfast_floor": at.floor,
        "lockfast_shared": at.shared,
    }


def only(found: Sequence[Row], table: str, key: Mapping[str, object]) -> Row:
    """Return the only row that a key has matched. Raise `LookupError` for none, and for several."""
    if not found:
        raise LookupError(f"no row of {table} has {dict(key)}: there is nothing to guard")
    if len(found) > 1:
        raise LookupError(
            f"{len(found)} rows of {table} have {dict(key)}: nothing was changed. Each row has "
            "a mark of its own: update them one by one, by a unique key."
        )
    return found[0]
