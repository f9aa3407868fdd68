"""Who has which claims: the index by thread or task. Under the lock of the table that keeps it."""

from __future__ import annotations

from lockfast.live import HELD, Live

NAMED = 16  # held names that a waiting claim tells of


class Owners:
    """Claims by the thread or task that made them. One that has none left is forgotten."""

    def __init__(self) -> None:
        """Begin empty."""
        self._owned: dict[object, dict[str, Live]] = {}

    def __len__(self) -> int:
        """Count those that have claims."""
        return len(self._owned)

    def add(self, live: Live) -> None:
        """Take a claim in."""
        owned = self._owned.get(live.owner)
        if owned is None:
            self._owned[live.owner] = {live.id: live}
        else:
            owned[live.id] = live

    def drop(self, live: Live) -> None:
        """Forget a claim."""
        owned = self._owned.get(live.owner)
        if owned is not None:
            owned.pop(live.id, None)
            if not owned:
                self._owned.pop(live.owner, None)

    def has(self, owner: object) -> bool:
        """Tell whether it has any claims."""
        return owner in self._owned

    def claims(self, owner: object) -> list[Live]:
        """List its claims."""
        return list(self._owned.get(owner, {}).values())

    def holding(self, owner: object) -> dict[str, str]:
        """Tell what it holds: names by ids, the last ones, not too many for a payload."""
        held = [live for live in self.claims(owner) if live.phase is HELD]
        return {live.id: live.shape.name for live in held[-NAMED:]}
