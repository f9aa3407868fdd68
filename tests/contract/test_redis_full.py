"""A Redis without memory: what is held is kept, and what is given up can be given up."""

from __future__ import annotations

import pytest

from lockfast.errors import EngineError, EngineRefused
from lockfast.testing import MODES, Stage
from tests.contract.benches import RedisBench, RedlockBench
from tests.servers import Redis, RedlockSet, ServerClock


def _fill(*servers: Redis) -> None:
    for server in servers:
        server.command("CONFIG", "SET", "maxmemory", 1)


@pytest.mark.parametrize("mode", sorted(MODES))
def test_resignations_in_doubt_are_taken_by_a_full_redis(mode: str) -> None:
    with Redis() as server:
        stage = Stage(RedisBench(server.url, server), MODES[mode]())

        async def play() -> None:
            actor = stage.actor()
            asks = [actor.ask(ttl=60) for _ in range(3)]
            for ask in asks:
                await actor.claim(ask)
            _fill(server)
            with pytest.raises(EngineRefused, match="OOM"):
                await actor.claim(actor.ask("another", ttl=60))
            never = actor.ask("never sent", ttl=60)
            assert await actor.resign(never, doubt=True) == [False]
            assert await actor.resign(asks[1], doubt=True) == [True]
            assert await actor.resign(asks[0], doubt=True) == [True]
            assert (await actor.renew_one(asks[2])).granted
            assert await actor.is_dead(never)

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_full_redis_whose_clock_went_back_renews(mode: str) -> None:
    clock = ServerClock()
    with Redis(env=clock.env) as server:
        stage = Stage(RedisBench(server.url, server), MODES[mode]())

        async def play() -> None:
            actor = stage.actor()
            holder, waiter = actor.ask(ttl=20), actor.ask(ttl=20)
            await actor.claim(holder)
            await actor.claim(waiter)
            clock.advance(-5.0)
            _fill(server)
            assert (await actor.renew_one(holder)).granted
            assert not (await actor.renew_one(waiter)).granted
            assert await actor.resign(holder, waiter) == [True, True]

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_release_raises_the_marks_of_full_nodes(mode: str) -> None:
    with RedlockSet(3) as servers:
        stage = Stage(RedlockBench(servers), MODES[mode]())

        async def play() -> None:
            actor = stage.actor()
            warm = actor.ask("warm", ttl=60)
            await actor.claim(warm)
            await actor.resign(warm)
            _fill(*servers.nodes)
            refused = actor.ask(ttl=60)
            with pytest.raises(EngineError, match="OOM"):
                await actor.claim(refused)
            assert await actor.resign(refused, doubt=True) == [False]

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()
