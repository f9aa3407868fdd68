"""Places: where words and bars go so that none lies upon another."""

from __future__ import annotations


def wide(words: str) -> float:
    """Tell about how wide small words are."""
    return 6.4 * len(words)


class Lanes:
    """Each span gets the first lane that is free."""

    def __init__(self) -> None:
        self._ends: list[float] = []

    @property
    def count(self) -> int:
        return len(self._ends)

    def place(self, left: float, right: float) -> int:
        """Tell the lane; spans come in the order of their lefts."""
        for lane, end in enumerate(self._ends):
            if end <= left:
                self._ends[lane] = right
                return lane
        self._ends.append(right)
        return len(self._ends) - 1


class Shelf:
    """One line of words. Who comes first gets the place; who does not fit is left out."""

    def __init__(self) -> None:
        self._taken: list[tuple[float, float]] = []

    def place(self, left: float, width: float, most: float) -> float | None:
        """Tell where they go: there, or at the right edge; None if that is taken."""
        left = min(left, most - width - 2)
        if any(left < end + 4 and began < left + width + 4 for began, end in self._taken):
            return None
        self._taken.append((left, left + width))
        return left
