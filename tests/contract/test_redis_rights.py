"""Users of Redis that lack rights: no script stops half way, and who waits still gets in."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest

import lockfast
from lockfast.engines.redis.keys import keys
from lockfast.errors import EngineRefused
from lockfast.port import Standing
from lockfast.testing import MODES, Actor, Stage
from lockfast.testing.harness.verbs import acquire, release
from tests.contract.benches import RedisBench, RedlockBench
from tests.servers import Redis, RedlockSet
from tests.servers.node import rows

NO_CHANNELS = "resetchannels ~lockfast:* +@all -@admin -@dangerous +info"
SECRET = "s3cret"  # noqa: S105  # of a server that lives for a minute


def _server(acl: str) -> Redis:
    return Redis(username="app", password=SECRET, acl=acl)


@pytest.fixture(scope="module")
def single() -> Iterator[RedisBench]:
    with _server(NO_CHANNELS) as server:
        yield RedisBench(server.url, server)


@pytest.fixture(scope="module")
def several() -> Iterator[RedlockBench]:
    with RedlockSet([_server(NO_CHANNELS) for _ in range(3)]) as servers:
        yield RedlockBench(servers)


@pytest.fixture(params=["redis", "redlock"])
def bench(request: pytest.FixtureRequest) -> RedisBench:
    found = request.getfixturevalue("single" if request.param == "redis" else "several")
    assert isinstance(found, RedisBench)
    return found


def test_a_release_without_rights_to_the_channel_still_lets_the_waiter_in(stage: Stage) -> None:
    async def play() -> None:
        holder = await acquire(stage.client().lock("x", ttl=1.5))
        waiting = stage.mode.start(acquire(stage.client().lock("x", ttl=1.5), 10))
        await stage.mode.until(lambda: holder.waiters == 1, "the holder learns that one waits")
        await release(holder)
        # It looks by itself, at a third of the ttl at the latest.
        await release(await waiting.result(1.5))

    stage.mode.run(play())


def test_a_refused_subscription_is_logged_once_and_not_tried_20_times_a_second(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        bench = stage.bench
        assert isinstance(bench, RedisBench)
        lease = await acquire(stage.client().lock("x", ttl=1.5))
        await stage.mode.sleep(0.5)
        before = [_count(server, "connections_received") for server in bench.servers]
        asked = [_asked(server) for server in bench.servers]
        await stage.mode.sleep(1.5)
        after = [_count(server, "connections_received") for server in bench.servers]
        # Two for each of these questions.
        assert max(b - a for a, b in zip(before, after, strict=True)) <= 4
        again = [_asked(server) for server in bench.servers]
        assert max(b - a for a, b in zip(asked, again, strict=True)) <= 1
        await release(lease)

    with caplog.at_level(logging.WARNING, "lockfast"):
        stage.mode.run(play())
    bench = stage.bench
    assert isinstance(bench, RedisBench)
    told = [each for each in caplog.messages if "rejects the subscription" in each]
    assert 1 <= len(told) <= len(bench.servers)
    assert "lockfast:" in told[0]
    assert len(set(told)) == len(told)


def _count(server: Redis, what: str) -> int:
    return int(server.info("stats")[f"total_{what}"])


def _asked(server: Redis) -> int:
    stats = server.info("commandstats").get("cmdstat_subscribe", "calls=0,rejected_calls=0")
    numbers = dict(pair.split("=") for pair in stats.split(","))
    return int(numbers["calls"]) + int(numbers["rejected_calls"])


NOPERM = "NOPERM|can't run this command"  # by acl_check_cmd, and by Redis itself
READING = ["zrange", "zrangebyscore", "zcard", "hlen", "hget"]


@pytest.mark.parametrize("lacking", ["hset", "hdel", "zrem", "zadd", "pexpireat", *READING])
@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_user_without_a_command_of_the_queue_leaves_no_half_of_one(
    lacking: str, mode: str
) -> None:
    """With ZREM and without HDEL, a waiter that left took the holder's lock away."""
    with Redis() as server:
        rules = f"~lockfast:* &lockfast:* +@all -{lacking}"
        server.command("ACL", "SETUSER", "app", "on", f">{SECRET}", *rules.split())
        stage = Stage(RedisBench(server.url, server), MODES[mode]())

        async def play() -> None:
            sound = stage.actor()
            bench = RedisBench(f"redis://app:{SECRET}@{server.address}", server)
            poor = Actor(bench.open(stage.mode.runtime(bench.now)), bench)
            holder, waiter = sound.ask(ttl=60), sound.ask(ttl=60)
            await sound.claim(holder)
            await sound.claim(waiter)
            if lacking not in {"hset", "zadd"}:  # a resignation needs neither
                with pytest.raises(EngineRefused, match=NOPERM):
                    await poor.resign(waiter)
            with pytest.raises(EngineRefused, match=NOPERM):
                await poor.claim(poor.ask(ttl=60))
            first, second = await sound.renew(holder, waiter)
            assert isinstance(first, Standing)
            assert first.granted
            assert isinstance(second, Standing)
            assert not second.granted
            assert len(await sound.entries("x")) == 2
            await poor.engine.close()
            assert await sound.resign(holder) == [True]
            assert (await sound.renew_one(waiter)).granted

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


@pytest.mark.parametrize("lacking", [*READING, "zrevrangebyscore"])
@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_user_that_cannot_read_a_queue_makes_none_of_a_sole_holder(
    lacking: str, mode: str
) -> None:
    """Without HLEN, a user made a queue in which it could not renew its own lease any more."""
    with Redis() as server:
        rules = f"~lockfast:* &lockfast:* +@all -{lacking}"
        server.command("ACL", "SETUSER", "app", "on", f">{SECRET}", *rules.split())
        stage = Stage(RedisBench(server.url, server), MODES[mode]())

        async def play() -> None:
            bench = RedisBench(f"redis://app:{SECRET}@{server.address}", server)
            poor = Actor(bench.open(stage.mode.runtime(bench.now)), bench)
            holder = poor.ask(ttl=60)
            await poor.claim(holder)
            before = server.command("KEYS", "lockfast:*")
            with pytest.raises(EngineRefused, match=NOPERM):
                await poor.claim(poor.ask(ttl=60))
            assert len(rows(server.command("KEYS", "lockfast:*"))) == len(rows(before))
            assert (await poor.renew_one(holder)).granted
            assert await poor.resign(holder) == [True]
            await poor.engine.close()

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


@pytest.mark.parametrize("scrawl", ["scrawl", "99999999999999999999 1 1 60000 60000 {}"])
@pytest.mark.parametrize("mode", sorted(MODES))
def test_an_unreadable_record_does_not_stop_a_script_half_way(mode: str, scrawl: str) -> None:
    with Redis() as server:
        stage = Stage(RedisBench(server.url, server), MODES[mode]())

        async def play() -> None:
            actor = stage.actor()
            asks = [actor.ask(ttl=60) for _ in range(3)]
            for ask in asks:
                await actor.claim(ask)
            (records,) = rows(server.command("KEYS", "*#x"))
            assert isinstance(records, bytes)
            server.command("HSET", records, asks[1].id, scrawl)
            assert await actor.resign(asks[0]) == [True]
            # The second blocks the third until it expires; then there is nobody to be found.
            (third,) = await actor.renew(asks[2])
            assert isinstance(third, Standing)
            assert not third.granted

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_scores_that_a_stranger_has_written_do_not_stop_a_script_half_way(mode: str) -> None:
    """SET refuses a time before 1970, and a queue without its state would let nobody in."""
    with Redis() as server:
        stage = Stage(RedisBench(server.url, server), MODES[mode]())

        async def play() -> None:
            actor = stage.actor()
            asks = [actor.ask(ttl=60) for _ in range(3)]
            for ask in asks:
                await actor.claim(ask)
            (order,) = rows(server.command("KEYS", "*>x"))
            assert isinstance(order, bytes)
            for ask in asks[1:]:
                server.command("ZADD", order, "5", f"~{ask.id}")
            assert await actor.resign(asks[0]) == [True]

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


def test_a_wrong_password_is_not_mistaken_for_a_missing_right(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with Redis(password=SECRET) as server:
        with lockfast.connect(f"redis://:wrong@{server.address}") as client:
            with pytest.raises(EngineRefused, match="password in the URL is wrong"):
                client.lock("x").acquire(timeout=1)
            time.sleep(0.3)
        assert "ACL SETUSER" not in caplog.text


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_name_that_the_user_may_not_lock_does_not_refuse_others_in_its_call(mode: str) -> None:
    """Redis checks the keys of all claims of a call before it runs any of them."""
    buckets = {name: keys(name).bucket for name in ("a", "b", "c")}
    allowed = " ".join(f"~lockfast:{{{buckets[name]}}}*" for name in ("a", "c"))
    with _server(f"resetchannels {allowed} +@all -@admin -@dangerous +info") as server:

        async def play(stage: Stage) -> None:
            actor = stage.actor()
            asks = [actor.ask(name, ttl=20) for name in buckets]
            first, second, third = await actor.engine.claim_all(asks, actor.deadline)
            assert isinstance(first, Standing)
            assert isinstance(second, EngineRefused)
            assert isinstance(third, Standing)
            gone = await actor.engine.resign(asks, actor.deadline, doubt=False)
            assert [gone[0], gone[2]] == [True, True]
            assert isinstance(gone[1], EngineRefused)

        stage = Stage(RedisBench(server.url, server), MODES[mode]())
        stage.mode.run(play(stage))
        stage.mode.run(stage.clear())
        stage.mode.close()
