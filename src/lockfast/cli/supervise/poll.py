"""Waits for file descriptors, whatever their numbers.

`select.select` fails for descriptors from 1024 on, and a job may inherit more than that.
"""

from __future__ import annotations

import select
from collections.abc import Iterable


def ready(descriptors: Iterable[int], seconds: float | None = None) -> set[int]:
    """Wait until a descriptor is readable or the time is over. Return those that are readable.

    A descriptor is also readable when its other side was closed.
    """
    poll = select.poll()
    for each in descriptors:
        poll.register(each, select.POLLIN)
    return {each for each, _ in poll.poll(None if seconds is None else seconds * 1000.0)}
