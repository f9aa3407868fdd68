"""Who has which claims: the index by thread or task. Under the lock of the table that keeps it."""

from __future__ import annotations

from lockfast.live import HELD, Live

NAMED = 16  # held names that a waiting claim tells of


class Owners(dict[object, dict[str, Live]]):
    """Claims by the thread or task that made them, and by id. One that has none is forgotten."""

    def add(self, live: Live) -> None:
        """Take a claim in."""
        owned = self.get(live.owner)
        if owned is None:
            self[live.owner] = {live.id: live}
        else:
            owned[live.id] = live

    def drop(self, live: Live) -> None:
        """Forget a claim."""
        owned = self.get(live.owner)
        if owned is not None and live.id in owned:
            if len(owned) == 1:
                del self[live.owner]
            else:
                del owned[live.id]

    def claims(self, owner: object) -> list[Live]:
        """List its claims."""
        return list(self.get(owner, {}).values())

    def holding(self, owner: object) -> dict[str, str]:
        """Tell what it holds: names by ids, the last ones, not too many for a payload."""
        held = [live for live in self.claims(owner) if live.phase is HELD]
        return {live.id: live.shape.name for live in held[-NAMED:]}
