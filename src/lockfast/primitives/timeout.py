"""Checks of the seconds that callers pass."""

from __future__ import annotations

import math


def checked_timeout(timeout: float | None) -> float | None:
    """Return `timeout` as a float, or None for no limit. Raise if it is not valid (trap 8)."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout is a number of seconds or None, not {timeout!r}")
    if math.isnan(timeout) or timeout < 0:
        raise ValueError(
            f"the timeout is 0 seconds or more, not {timeout!r}. Without one a wait has no end."
        )
    return None if math.isinf(timeout) else float(timeout)


def checked_pause(every: float) -> float:
    """Return the seconds between two polls as a float. Raise if they are not above 0."""
    if isinstance(every, bool) or not isinstance(every, (int, float)):
        raise TypeError(f"every is a number of seconds, not {every!r}")
    if not 0 < every < math.inf:
        raise ValueError(f"every is a number of seconds above 0, such as 1.0, not {every!r}")
    return float(every)
