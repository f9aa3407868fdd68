"""Checks of the seconds that callers pass."""

from __future__ import annotations

import math


def checked_timeout(timeout: float | None) -> float | None:
    """Return `timeout` as a float, or None for no limit. Raise if it is not valid (trap 8)."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise TypeError(f"timeout must be a number of seconds or None, not {timeout!r}")
    if math.isnan(timeout) or timeout < 0:
        raise ValueError(
            f"timeout must be 0 seconds or more, not {timeout!r}. Use None to wait without limit."
        )
    return None if math.isinf(timeout) else float(timeout)


def checked_at_most(at_most: float | None, at_least: float = 0.0) -> float:
    """Return `at_most` as a float, infinite for None. Raise if it is not above 0, or too short."""
    if at_most is None:
        return math.inf
    if isinstance(at_most, bool) or not isinstance(at_most, (int, float)):
        raise TypeError(f"at_most must be a number of seconds or None, not {at_most!r}")
    if not at_most > 0:
        raise ValueError(f"at_most must be a number of seconds above 0, or None, not {at_most!r}")
    if at_least > at_most:
        raise ValueError(f"at_least={at_least:g} must not be longer than at_most={at_most:g}")
    return float(at_most)


def checked_pause(every: float) -> float:
    """Return the seconds between two polls as a float. Raise if they are not above 0."""
    if isinstance(every, bool) or not isinstance(every, (int, float)):
        raise TypeError(f"every must be a number of seconds, not {every!r}")
    if not 0 < every < math.inf:
        raise ValueError(f"every must be a number of seconds above 0, such as 1.0, not {every!r}")
    return float(every)
