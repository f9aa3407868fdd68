"""What is found about the formats in which locks are stored, in words."""

from __future__ import annotations

from collections.abc import Iterable

from lockfast.core.record import FORMAT
from lockfast.guarantees import Finding


def foreign(others: Iterable[int]) -> Finding:
    """Return the finding that locks are stored in formats which this version cannot read."""
    return Finding(
        f"stored format = {', '.join(map(str, sorted(others)))}",
        f"this version reads format {FORMAT} only, so it cannot acquire the locks that clients of "
        "another version use",
        "Upgrade these clients, or wait until they have released their locks.",
    )
