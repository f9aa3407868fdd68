"""Waiting for descriptors, whatever their numbers.

`select.select` fails from 1024 on, and a job may inherit more than that.
"""

from __future__ import annotations

import select
from collections.abc import Iterable


def ready(descriptors: Iterable[int], seconds: float | None = None) -> set[int]:
    """Sleep until there is something to read, or the time is over; give what can be read.

    The end of the other side is something to read too.
    """
    poll = select.poll()
    for each in descriptors:
        poll.register(each, select.POLLIN)
    return {each for each, _ in poll.poll(None if seconds is None else seconds * 1000.0)}
