"""Traps 17 and 18 with processes and servers that are stopped. The contract has more: `loss`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from lockfast import LeaseLost, Loss
from tests.servers import Redis, wait_until
from tests.traps.holder import Holder
from tests.traps.keyspace import left
from tests.traps.modes import Client, Lease

Connect = Callable[[str], Client]
Hold = Callable[..., Holder]


# --- 17: it still says "held" -------------------------------------------------------------------


@pytest.mark.parametrize("in_loop", [False, True])
def test_trap_17_the_first_question_after_a_pause_is_answered_truly(
    hold: Hold, server: Redis, *, in_loop: bool
) -> None:
    answers = {"state": "LOST", "loss": "EXPIRED", "ensure": "EXPIRED", "release": "EXPIRED"}
    # One process for each question, since only the first one counts.
    paused = {question: hold(question, 0.4, aio=in_loop) for question in answers}
    for holder in paused.values():
        holder.holds()
        holder.pause()
    wait_until(lambda: all(left(server, name) == -2 for name in paused), "the locks have expired")
    for question, holder in paused.items():
        holder.resume()
        assert holder.ask(question) == answers[question]
        wait_until(partial(_was_told, holder), "on_lost was called")


def _was_told(holder: Holder) -> bool:
    return holder.ask("told") == "1"


# --- 18: expired, stolen, unreachable: all the same ----------------------------------------------


def reason(lease: Lease) -> Loss:
    """Tell the reason that the error gives, which must be the lease's."""
    with pytest.raises(LeaseLost) as held:
        lease.ensure_held()
    with pytest.raises(LeaseLost) as released:
        lease.release()
    assert held.value.reason is released.value.reason is lease.loss
    assert held.value.reason.value in str(held.value)
    return held.value.reason


def test_trap_18_a_lease_on_a_server_that_hangs_is_unreachable(
    either: Connect, server: Redis
) -> None:
    lease = either(server.url).lock("x", ttl=0.6).acquire()
    server.pause()
    try:
        assert lease.wait_lost(1.1)
        assert reason(lease) is Loss.UNREACHABLE
    finally:
        server.resume()


@pytest.mark.parametrize("in_loop", [False, True])
def test_trap_18_a_lease_that_ran_out_in_a_pause_is_expired(
    hold: Hold, server: Redis, *, in_loop: bool
) -> None:
    paused = hold("x", 0.3, aio=in_loop)
    paused.holds()
    paused.pause()
    wait_until(lambda: left(server, "x") == -2, "the lock has expired")
    paused.resume()
    assert paused.ask("ensure") == paused.ask("release") == paused.ask("loss") == "EXPIRED"
