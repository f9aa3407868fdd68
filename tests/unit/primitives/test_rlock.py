"""Re-entrant frames: one that is interrupted leaves the others alone."""

from __future__ import annotations

import lockfast


def test_an_inner_frame_that_is_interrupted_does_not_give_the_outer_ones_lease_away() -> None:
    with lockfast.connect("memory://") as client, client.rlock("x") as outer:
        inner = client.rlock("x").acquire()
        inner._abandon()  # what Ctrl-C in the middle of its release() does
        outer.ensure_held()
        assert [each.id for each in client.lock("x").queue()] == [outer.id]
        outer._abandon()
        assert outer.loss is lockfast.Loss.RELEASED
