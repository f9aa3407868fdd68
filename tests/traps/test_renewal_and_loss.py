"""Traps 14 and 16 with what is stopped or killed. The contract has 13 to 16 too: `renewal`."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import lockfast
from lockfast import State
from tests.servers import Redis, wait_until
from tests.traps.holder import Holder
from tests.traps.keyspace import left
from tests.traps.modes import Client
from tests.traps.waiting import take_soon

Connect = Callable[[str], Client]
Hold = Callable[..., Holder]


# --- 14: a renewal of what is gone --------------------------------------------------------------


@pytest.mark.parametrize("in_loop", [False, True])
def test_trap_14_a_holder_that_was_paused_does_not_keep_its_successors_lease_alive(
    hold: Hold, client: lockfast.Client, *, in_loop: bool
) -> None:
    paused = hold("x", 0.4, aio=in_loop)
    paused.holds()
    paused.pause()
    successor = hold("x", 0.8)
    successor.holds()
    paused.resume()
    assert paused.ask("state") == "LOST"
    assert paused.ask("release") == "EXPIRED"
    assert successor.ask("state") == "HELD"
    successor.kill()
    take_soon(client.lock("x"), 1.3)


# --- 16: the renewer dies of its first error ----------------------------------------------------


def test_trap_16_a_lease_outlives_a_server_that_was_down(either: Connect) -> None:
    with Redis(appendonly=True) as server:
        lease = either(server.url).lock("x", ttl=2).acquire()
        server.kill()
        wait_until(lambda: lease.state is State.JEOPARDY, "the lease is in jeopardy")
        lease.ensure_held()  # unknown is not lost
        server.start()
        wait_until(lambda: lease.state is State.HELD, "the lease is held")
        assert lease.remaining > 1  # it was renewed
        lease.release()
        assert left(server, "x") == -2


def test_trap_16_a_client_goes_on_when_its_server_was_down(either: Connect) -> None:
    with Redis() as server:
        client = either(server.url)
        client.lock("x").acquire().release()
        server.restart(keep_data=True)
        assert client.lock("x").queue() == []
        server.restart(keep_data=True)
        assert client.lock("x").try_acquire() is not None
