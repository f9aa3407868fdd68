"""Callbacks run in the thread that renews all leases: what they may not do there."""

from __future__ import annotations

import pytest

import lockfast
from tests.servers import wait_until


@pytest.mark.parametrize("form", ["one", "several", "re-entrant", "its end"])
def test_waiting_in_on_lost_raises_and_costs_no_other_lease(
    client: lockfast.Client, form: str
) -> None:
    """The wait would never end: the heart brings the grant or the loss, and would itself wait."""
    kept = client.lock("kept", ttl=1.0).acquire()
    lease = client.lock("x", ttl=1.0).acquire()
    raised: list[BaseException] = []

    def again() -> None:
        try:
            if form == "one":
                client.lock("x", ttl=1.0).acquire()
            elif form == "several":
                client.lock_all("x", "y", ttl=1.0).acquire()
            elif form == "its end":
                kept.wait_lost()
            else:
                client.rlock("x", ttl=1.0).acquire(timeout=60.0)
        except lockfast.LockfastError as error:
            raised.append(error)

    lease.on_lost(again)
    lease.fenced()
    wait_until(lambda: bool(raised), "the callback", 2.0)
    assert isinstance(raised[0], lockfast.Deadlock)
    assert "in a callback of lockfast" in str(raised[0])
    assert not kept.wait_lost(2.0)
    kept.release()


def test_a_callback_may_try_a_lock_and_release_one(client: lockfast.Client) -> None:
    other = client.lock("other", ttl=5.0).acquire()
    lease = client.lock("x", ttl=5.0).acquire()
    got: list[lockfast.Lease | None] = []

    def callback() -> None:
        other.release()
        got.append(client.lock("free", ttl=5.0).try_acquire())

    lease.on_lost(callback)
    lease.fenced()
    wait_until(lambda: bool(got), "the callback", 2.0)
    assert got[0] is not None
    got[0].release()
    assert other.state is lockfast.State.RELEASED
