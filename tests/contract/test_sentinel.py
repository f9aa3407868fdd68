"""Sentinel: the primary is killed, a replica is promoted, and work goes on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from lockfast.core.validity import State
from lockfast.testing import Stage
from lockfast.testing.harness.verbs import acquire, queue, release, try_acquire
from tests.contract.benches import RedisBench
from tests.servers import SentinelSet

TTL = 5.0  # longer than a failover: what the replica has is what the primary had


@pytest.fixture
def servers() -> Iterator[SentinelSet]:
    with SentinelSet() as servers:
        yield servers


@pytest.fixture
def bench(servers: SentinelSet) -> RedisBench:
    return RedisBench(servers.url, servers.primary())


def test_leases_survive_a_failover_and_new_ones_are_given(
    servers: SentinelSet, stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        held = [await acquire(client.lock(f"held {n}", ttl=TTL)) for n in range(5)]
        waiting = stage.mode.start(acquire(other.lock("held 0", ttl=TTL), 30))
        await stage.mode.until(lambda: held[0].waiters == 1, "the holder learns that one waits", 10)
        servers.wait_in_step()
        old = servers.kill_primary()
        began = time.monotonic()
        # A new acquisition waits for the new primary.
        fresh = await acquire(client.lock("fresh", ttl=TTL), 30)
        took = time.monotonic() - began
        with capsys.disabled():
            print(f"\n[{stage.mode.name}] acquired {took:.2f} s after the primary was killed")  # noqa: T201  # the time is asked for
        assert servers.wait_failover(old) is not old
        # The old leases are renewed at the new primary, for longer than they would last without.
        await stage.mode.sleep(max(0.0, TTL + 1.0 - (time.monotonic() - began)))
        assert [lease.state for lease in [*held, fresh]] == [State.HELD] * 6
        assert await try_acquire(other.lock("held 1", ttl=TTL)) is None
        assert not waiting.done()
        # And released there: the waiter, whose push comes from the new primary, gets in.
        before = time.monotonic()
        for lease in [*held, fresh]:
            await release(lease)
        after = await waiting.result()
        assert time.monotonic() - before < 3
        assert after.token > held[0].token
        await release(after)
        assert await queue(client.lock("held 0")) == []

    stage.mode.run(play())


def test_a_release_during_the_failover_arrives_at_the_new_primary(
    servers: SentinelSet, stage: Stage
) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=TTL))
        servers.wait_in_step()
        servers.kill_primary()
        began = time.monotonic()
        await release(lease)
        assert lease.state is State.RELEASED
        again = await acquire(other.lock("x", ttl=TTL), 20)
        assert time.monotonic() - began < TTL  # and not because it expired
        assert again.token > lease.token
        await release(again)

    stage.mode.run(play())
