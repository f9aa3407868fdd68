"""A lease: what it shows while its renewal is under way."""

from __future__ import annotations

import lockfast


def test_remaining_is_never_more_than_the_ttl() -> None:
    """A renewal between the reading of the clock and of the end must not add to it."""
    with lockfast.connect("memory://") as client, client.lock("x", ttl=10) as lease:
        clock = lease._now

        def slow() -> float:
            now = clock()
            lease.claim.until = now + 11.0  # a renewal, one second later
            return now

        lease._now = slow
        assert lease.remaining <= 10.0
