"""Redlock in trouble: nodes down, paused, wiped, restarted, or with a clock of their own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from lockfast.claims.renewing import CHUNK
from lockfast.core.validity import State
from lockfast.engines.redlock import install, messages
from lockfast.engines.redlock.engine import RedlockEngine
from lockfast.engines.redlock.scripts import INSTALL
from lockfast.errors import EngineRefused, EngineUnavailable, NotAcquired
from lockfast.port import LONGEST_WAIT, Ask, Shape
from lockfast.testing import MODES, Actor, Stage
from lockfast.testing.harness.verbs import AnyClient, acquire, queue, release, try_acquire
from tests.contract.benches import RedisBench, RedlockBench
from tests.servers import Proxy, Redis, RedlockSet, ServerClock

TTL = 2.0
SETTLED = messages.SETTLED / 1000


class Nodes(RedlockSet):
    """Five nodes, each with a clock of its own."""

    def __init__(self) -> None:
        self.clocks = [ServerClock() for _ in range(5)]
        super().__init__([Redis(env=clock.env) for clock in self.clocks])

    def member(self, number: int) -> bool:
        """Tell whether a node is a member: it has the marks of all its buckets."""
        marks = self.nodes[number].command("MGET", *(messages.mark_key(b) for b in range(1024)))
        assert isinstance(marks, list)
        return None not in marks


@pytest.fixture
def servers() -> Iterator[Nodes]:
    with Nodes() as nodes:
        yield nodes


@pytest.fixture
def bench(servers: Nodes) -> RedlockBench:
    return RedlockBench(servers)


async def tokens_of(client: AnyClient, rounds: int, name: str = "x") -> list[int]:
    """Acquire and release, and tell the tokens."""
    tokens = []
    for _ in range(rounds):
        lease = await acquire(client.lock(name, ttl=TTL), 10)
        tokens.append(lease.token)
        await release(lease)
    return tokens


async def work_until(client: AnyClient, condition: Callable[[], object], what: str) -> None:
    """Be at work until something has come about: whoever is idle meets no node and helps none."""
    end = time.monotonic() + 20
    while not condition():
        await tokens_of(client, 1, "met")
        assert time.monotonic() < end, f"not within 20 s: {what}"


async def meet(client: AnyClient, node: Redis) -> None:
    """Be at work until a node is known to be no member; a slow one is met later."""
    await work_until(
        client,
        lambda: str(node.command("GET", messages.MEMBER)).startswith("b'J"),
        "a client has met it",
    )


def strictly_rising(tokens: list[int]) -> bool:
    return tokens == sorted(set(tokens))


def test_trap_31_a_majority_won_while_two_of_five_are_down_is_a_success(
    servers: Nodes, stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        tokens = await tokens_of(client, 5)
        kept = await acquire(client.lock("kept", ttl=TTL))
        for node in servers.nodes[:2]:
            node.kill()
        began = time.monotonic()
        tokens += await tokens_of(client, 20)
        tokens += await tokens_of(other, 20)  # and one that has never seen them
        took = time.monotonic() - began
        assert await try_acquire(other.lock("kept", ttl=TTL)) is None
        await stage.mode.sleep(1.5 * TTL)
        assert kept.state is State.HELD  # renewed by the three that are left
        await release(kept)
        assert strictly_rising(tokens)
        assert took < 5
        with capsys.disabled():
            print(f"\n40 pairs with two of five nodes down: {took:.2f} s", end="")  # noqa: T201  # asked for
        for node in servers.nodes[:2]:
            node.start()
        assert await tokens_of(client, 5) > tokens[-1:]

    stage.mode.run(play())


def test_two_of_five_that_stand_still_hold_nobody_up(servers: Nodes, stage: Stage) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        kept = await acquire(client.lock("kept", ttl=TTL))
        tokens = await tokens_of(client, 3)
        for node in servers.nodes[3:]:  # the last is the one that clients listen to
            node.pause()
        try:
            began = time.monotonic()
            tokens += await tokens_of(client, 20)
            assert time.monotonic() - began < 5
            waiting = stage.mode.start(acquire(other.lock("kept", ttl=TTL), 20))
            await stage.mode.sleep(1.5 * TTL)
            assert kept.state is State.HELD
            assert not waiting.done()
            await release(kept)
            following = await waiting.result()
            assert following.token > kept.token
            await release(following)
        finally:
            for node in servers.nodes[3:]:
                node.resume()
        tokens += await tokens_of(client, 3)
        assert strictly_rising(tokens)

    stage.mode.run(play())


@pytest.mark.parametrize("near", [2**53 - 1, 2**53 - 100])
def test_one_node_with_a_number_near_the_limit_does_not_raise_the_tokens(
    servers: Nodes, stage: Stage, near: int
) -> None:
    """One garbled reply was taken for the highest number: the others got it, up to the limit."""

    async def play() -> None:
        client = stage.client()
        tokens = await tokens_of(client, 2)
        for bucket in range(1024):
            servers.nodes[0].command("SET", messages.mark_key(bucket), f"{near:016d} 2000")
        kept = await acquire(client.lock("kept", ttl=TTL))
        with pytest.raises(NotAcquired):  # the one that is in the way shows that mark too
            await acquire(stage.client().lock("kept", ttl=TTL), 0.2)
        await release(kept)
        tokens += await tokens_of(client, 5)
        assert strictly_rising(tokens)
        assert tokens[-1] < time.time_ns() // 1000 + 60_000_000

    stage.mode.run(play())


@pytest.mark.parametrize("exact", [True, False])
def test_a_holder_is_shown_though_two_of_its_nodes_answer_last(
    servers: Nodes, stage: Stage, *, exact: bool
) -> None:
    """It was on three of five nodes, and only one of those was among the first three to answer."""
    ways = [Proxy(node.host, node.port).start() for node in servers.nodes * 2]
    late, slow = (
        RedisBench(f"redlock://{','.join(way.address for way in part)}")
        for part in (ways[:5], ways[5:])
    )

    async def play() -> None:
        holder, operator = (
            Actor(bench.open(stage.mode.runtime(bench.now)), bench) for bench in (late, slow)
        )
        assert await operator.entries("x") == []  # connected, and the scripts are known
        mine = holder.ask(ttl=40)
        for way in ways[3:5]:
            way.hold_requests(lambda request: mine.id.encode() in request)
        assert (await holder.claim(mine)).granted
        for way in ways[5:7]:
            way.delay(0.0, replies=0.4)
        found = await (operator.entries("x") if exact else operator.every(""))
        assert [entry.id for entry in found] == [mine.id]
        for actor in (holder, operator):
            await actor.engine.close()

    try:
        stage.mode.run(play())
    finally:
        for way in ways:
            way.close()


def test_a_release_is_not_overtaken_by_the_hearts_telling_it_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        client = stage.client()
        lease = await acquire(client.lock("x", ttl=TTL))
        engine = client._session.engine
        assert isinstance(engine, RedlockEngine)
        scatter, pending = engine._transport.scatter, [True]

        async def late(*args: Any, heart: bool = False) -> None:  # noqa: ANN401  # handed on
            if pending and not heart:
                pending.clear()
                for node in range(5):  # their lines were lost: they may have missed releases
                    engine._lost(node)
                await stage.mode.until(lambda: not engine._chores._lost, "they were told again")
            await scatter(*args, heart=heart)

        monkeypatch.setattr(engine._transport, "scatter", late)
        await release(lease)  # it was there, so it was not lost
        assert not pending

    stage.mode.run(play())


@pytest.mark.parametrize("spoiled", [0, 1])
def test_a_release_of_several_that_a_majority_refuses_for_one_is_an_error_for_that_one(
    servers: Nodes, stage: Stage, spoiled: int
) -> None:
    """If it was not the first, it was reported as a lost lease, and there was no error."""

    async def play() -> None:
        actor = stage.actor()
        asks = [actor.ask(name, ttl=20) for name in ("x", "y")]
        for ask in asks:
            assert (await actor.claim(ask)).granted
        name = asks[spoiled].shape.name
        key = f"{messages.mark_key(messages.keys(name).bucket)}={name}"
        for node in servers.nodes[:3]:
            node.command("DEL", key)
            node.command("RPUSH", key, "of another program")
        answers = await actor.resign(*asks)
        assert isinstance(answers[spoiled], EngineRefused)
        assert "WRONGTYPE" in str(answers[spoiled])
        assert answers[1 - spoiled] is True
        assert (await stage.actor().claim(actor.ask(asks[1 - spoiled].shape.name))).granted

    stage.mode.run(play())


def test_the_heart_releases_those_behind_one_that_a_majority_refuses(
    servers: Nodes, stage: Stage
) -> None:
    """It stopped at the first chunk that was refused, again and again until the ttl was over."""

    async def play() -> None:
        client = stage.client()
        leases = [await acquire(client.lock(f"x{n}", ttl=40.0)) for n in range(CHUNK + 1)]
        key = f"{messages.mark_key(messages.keys('x0').bucket)}=x0"
        for node in servers.nodes[:3]:
            node.command("DEL", key)
            node.command("RPUSH", key, "of another program")
        table = client._session.table
        for claim in table.all():
            table.leave(claim, stage.bench.now())
        await stage.mode.until(lambda: len(table) == 1, "all others are released")
        assert await try_acquire(stage.client().lock(f"x{CHUNK}", ttl=TTL)) is not None
        assert len(leases) == CHUNK + 1

    stage.mode.run(play())


def test_three_of_five_down_is_an_error_that_says_so_and_leaves_nothing(
    servers: Nodes, stage: Stage
) -> None:
    async def play() -> None:
        client = stage.client()
        await tokens_of(client, 1)
        for node in servers.nodes[:3]:
            node.pause()
        began = time.monotonic()
        with pytest.raises(EngineUnavailable, match="2 of 5 Redis nodes answered, 3 are needed"):
            await acquire(client.lock("x", ttl=30.0), 1.0)
        assert time.monotonic() - began < 3
        for node in servers.nodes[:3]:
            node.resume()
        # What they had been sent before they stood still is applied now, and refused or freed.
        lease = await acquire(stage.client().lock("x", ttl=30.0), 10)
        await release(lease)

    stage.mode.run(play())


def test_a_clock_an_hour_ahead_on_one_node_changes_nothing(servers: Nodes, stage: Stage) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        kept = await acquire(client.lock("kept", ttl=30.0))
        tokens = await tokens_of(client, 3)
        servers.clocks[1].advance(3600.0)
        tokens += await tokens_of(client, 3)
        tokens += await tokens_of(other, 3)
        assert await try_acquire(other.lock("kept", ttl=TTL)) is None  # four others keep it
        servers.clocks[1].advance(-7200.0)
        tokens += await tokens_of(other, 3)
        tokens += await tokens_of(stage.client(), 3)
        assert strictly_rising(tokens)
        await release(kept)
        assert all(abs(token / 1e6 - time.time()) < 60 for token in tokens)

    stage.mode.run(play())


def test_a_client_with_a_clock_an_hour_behind_gets_higher_tokens_all_the_same(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def play() -> None:
        tokens = await tokens_of(stage.client(), 3)
        before = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: before() - 3600 * 10**9)
        for client in (stage.client(), stage.client()):  # each learns it from the nodes
            tokens += await tokens_of(client, 3)
        assert strictly_rising(tokens)

    stage.mode.run(play())


def test_trap_48_nodes_wiped_one_after_another_refuse_until_they_have_joined(
    servers: Nodes, stage: Stage
) -> None:
    async def load(client: AnyClient, stop: list[bool], grants: list[tuple[float, int]]) -> None:
        while not stop:
            lease = await acquire(client.lock("x", ttl=TTL), 20)
            grants.append((time.monotonic(), lease.token))
            await release(lease)
            await stage.mode.sleep(0.002)

    async def play() -> None:
        stop: list[bool] = []
        grants: list[tuple[float, int]] = []
        jobs = [stage.mode.start(load(stage.client(), stop, grants)) for _ in range(3)]
        for number, node in enumerate(servers.nodes):
            await stage.mode.until(lambda: len(grants) > 20, "grants")
            node.command("FLUSHALL")
            seen = len(grants)
            await stage.mode.until(lambda n=seen: len(grants) > n + 10, "grants without it")  # type: ignore[misc]  # a bound default
            assert not servers.member(number)
            assert node.command("KEYS", "*=x") == []  # it has accepted nothing
            servers.clocks[number].advance(SETTLED + TTL)  # as if so much time had passed
            await stage.mode.until(lambda n=number: servers.member(n), "it has joined")  # type: ignore[misc]  # the same
            mark = node.command("GET", messages.mark_key(messages.keys("x").bucket))
            assert isinstance(mark, bytes)
            assert int(mark.split()[0]) >= grants[seen][1]
        stop.append(True)
        for job in jobs:
            await job.result()
        assert strictly_rising([token for _, token in sorted(grants)])

    stage.mode.run(play())


def test_a_wiped_node_waits_for_the_longest_ttl_that_was_ever_granted(
    servers: Nodes, stage: Stage
) -> None:
    async def play() -> None:
        client = stage.client()
        long = await acquire(client.lock("x", ttl=60.0))
        servers.nodes[0].command("FLUSHALL")
        await meet(client, servers.nodes[0])
        servers.clocks[0].advance(SETTLED + 1)
        marks = [messages.mark_key(bucket) for bucket in (0, messages.keys("x").bucket)]
        assert messages.keys("x").bucket != 0
        node = servers.nodes[0]
        await work_until(client, lambda: node.command("EXISTS", marks[0]), "the rest has joined")
        assert not node.command("EXISTS", marks[1])  # where the long one may be held
        servers.clocks[0].advance(60.0)
        await work_until(client, lambda: servers.member(0), "all of it has joined")
        await release(long)

    stage.mode.run(play())


def test_a_node_that_comes_back_with_an_old_snapshot_is_no_member(
    servers: Nodes, stage: Stage
) -> None:
    async def play() -> None:
        client, node = stage.client(), servers.nodes[2]
        before = await tokens_of(client, 2)
        node.command("SAVE")
        before += await tokens_of(client, 2)
        node.kill()
        node.start()  # with marks, but without the last of them
        after = await tokens_of(client, 3)
        assert not servers.member(2)
        assert strictly_rising(before + after)
        await meet(client, node)
        servers.clocks[2].advance(SETTLED + TTL)
        await work_until(client, lambda: servers.member(2), "it has joined again")

    stage.mode.run(play())


def test_a_majority_that_was_wiped_is_not_made_anew_silently(servers: Nodes, stage: Stage) -> None:
    async def play() -> None:
        client = stage.client()
        before = await tokens_of(client, 2)
        for number in range(3):
            servers.nodes[number].command("FLUSHALL")
            servers.clocks[number].advance(3600.0)
        for _ in range(3):
            with pytest.raises(EngineRefused, match="3 of 5 Redis nodes are not members"):
                await acquire(client.lock("x", ttl=TTL), 1.0)
            await stage.mode.sleep(0.3)  # the heart has had its time
        assert [servers.member(number) for number in range(5)] == [False] * 3 + [True] * 2
        with pytest.raises(EngineRefused, match="lost=True"):
            install(servers.url)
        install(servers.url, lost=True)
        assert strictly_rising(before + await tokens_of(client, 2))

    stage.mode.run(play())


def test_a_new_set_says_what_to_do_and_all_must_be_up_for_it(stage: Stage) -> None:
    async def play() -> None:
        client = stage.client()
        for node in stage.bench.servers:  # type: ignore[attr-defined]  # a RedlockBench has them
            node.command("FLUSHALL")
        with pytest.raises(EngineRefused, match=r"run lockfast\.engines\.redlock\.install"):
            await acquire(client.lock("x", ttl=TTL), 1.0)
        nodes: tuple[Redis, ...] = stage.bench.servers  # type: ignore[attr-defined]  # the same
        nodes[4].kill()
        with pytest.raises(EngineUnavailable, match=nodes[4].address):
            install(stage.bench.url)  # type: ignore[attr-defined]  # the same
        nodes[4].start()
        for _ in range(2):
            install(stage.bench.url)  # type: ignore[attr-defined]  # the same
            assert strictly_rising(await tokens_of(client, 2))
        assert await queue(client.lock("x")) == []
        nodes[4].kill()
        install(stage.bench.url)  # type: ignore[attr-defined]  # a deployment while a node is down

    stage.mode.run(play())


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_late_copy_of_a_claim_that_was_broken_is_refused(mode: str) -> None:
    """Who breaks a claim does not know its number, and a node that missed it accepted the copy."""
    with RedlockSet(3) as servers:
        *near, far = servers.nodes
        with Proxy(far.host, far.port) as way:
            stage = Stage(RedlockBench(servers), MODES[mode]())
            addresses = [*(node.address for node in near), way.address]
            bench = RedisBench(f"redlock://{','.join(addresses)}")

            async def play() -> None:
                holder = Actor(bench.open(stage.mode.runtime(bench.now)), bench)
                warm = holder.ask("warm", ttl=40)
                await holder.claim(warm)  # connected, and the scripts are known
                await holder.resign(warm)
                mine = holder.ask(ttl=120)
                way.hold_requests(lambda request: mine.id.encode() in request)
                assert (await holder.claim(mine)).granted
                await stage.mode.until(lambda: way.held, "the claim is under way")
                other = stage.actor()
                shape = Shape("x", LONGEST_WAIT)
                broken = Ask(mine.id, shape, True, stage.bench.now() + LONGEST_WAIT, b"")  # noqa: FBT003  # queue
                assert await other.resign(broken, doubt=True) == [True]
                way.release_requests()
                lock = messages.mark_key(messages.keys("x").bucket) + "=x"
                assert [node.command("GET", lock) for node in servers.nodes] == [None] * 3
                await holder.engine.close()

            stage.mode.run(play())
            stage.mode.run(stage.clear())
            stage.mode.close()


def test_the_heart_does_not_wait_for_a_node_that_stands_still(servers: Nodes, stage: Stage) -> None:
    """It waited half a second to tell the node of a release: longer than a short lease lasts."""

    async def play() -> None:
        actor = stage.actor()
        await actor.attend()
        held = actor.ask("held", ttl=40)
        await actor.claim(held)
        await actor.renew_one(held)  # the heart is connected to all nodes
        stopped = servers.nodes[0]
        stopped.pause()
        try:
            ask = actor.ask("released", ttl=40)
            await actor.claim(ask)
            await actor.resign(ask)
            assert isinstance(actor.engine, RedlockEngine)
            actor.engine._lost(0)  # as if the connection had ended: it must be told again
            took = []
            for _ in range(10):
                began = time.monotonic()
                await actor.engine.listen(stage.bench.now() + 0.1)
                took.append(time.monotonic() - began)
            assert max(took) < 0.35, took
        finally:
            stopped.resume()

    stage.mode.run(play())


def test_a_node_joins_though_every_answer_comes_after_the_hearts_patience(
    servers: Nodes, stage: Stage
) -> None:
    """A heart with many short leases waits a few ms only: nodes stayed outside for minutes."""
    ways = [Proxy(node.host, node.port).start() for node in servers.nodes]
    bench = RedisBench(f"redlock://{','.join(way.address for way in ways)}")

    async def play() -> None:
        engine = bench.open(stage.mode.runtime(bench.now))
        actor = Actor(engine, bench)
        first = actor.ask("first", ttl=40)
        assert (await actor.claim(first)).granted
        servers.nodes[3].command("FLUSHALL")
        servers.nodes[4].command("FLUSHALL")
        for way in ways:
            way.delay(0.01, replies=0.01)
        end = time.monotonic() + 30.0
        while not (servers.member(3) and servers.member(4)):
            assert time.monotonic() < end, "not within 30 s"
            with suppress(EngineUnavailable):  # on a machine that stands still
                await actor.claim(actor.ask("met", ttl=40))  # it meets the two
            for _ in range(50):
                await engine.listen(bench.now() + 0.004)
            for clock in servers.clocks[3:]:
                clock.advance(1.0)
        await engine.close()

    stage.mode.run(play())
    for way in ways:
        way.close()


def test_a_node_joins_with_the_help_of_one_that_joined_after_it_was_asked(
    servers: Nodes, stage: Stage
) -> None:
    """Who was no member when it was asked for its marks was never asked again."""
    down, helper, joining = servers.nodes[2:]

    async def play() -> None:
        actor = stage.actor()
        await actor.attend()
        assert (await actor.claim(actor.ask("first", ttl=40))).granted
        helper.command("FLUSHALL")
        joining.command("FLUSHALL")
        down.kill()
        assert isinstance(actor.engine, RedlockEngine)
        joins = actor.engine._chores._joins
        end = time.monotonic() + 30.0
        while not (4 in joins and joins[4].strange):  # it has asked the helper
            assert time.monotonic() < end, "not asked within 30 s"
            with suppress(EngineUnavailable):
                await actor.claim(actor.ask("met", ttl=40))
            await actor.engine.listen(stage.bench.now() + 0.3)
            for clock in servers.clocks[3:]:
                clock.advance(1.0)
        made = ("EVAL", INSTALL.source, 1, messages.MEMBER, messages.PREFIX, 1024, f"{2**51:016d}")
        helper.command(*made)  # as if another client had let it in
        while not servers.member(4):
            assert time.monotonic() < end, "not joined within 30 s"
            await actor.engine.listen(stage.bench.now() + 0.3)

    stage.mode.run(play())
    down.start()


def test_a_node_that_cannot_join_is_asked_now_and_then(servers: Nodes, stage: Stage) -> None:
    """Two are no members and one is down: each answer of a stranger had all asked again at once."""
    first, down = servers.nodes[0], servers.nodes[4]

    async def play() -> None:
        actor = stage.actor()
        await actor.attend()
        assert (await actor.claim(actor.ask("first", ttl=40))).granted
        first.command("FLUSHALL")
        servers.nodes[1].command("FLUSHALL")
        down.kill()
        for clock in servers.clocks[:2]:
            clock.advance(60.0)
        with suppress(EngineUnavailable):
            await actor.claim(actor.ask("met", ttl=40))
        first.command("CONFIG", "RESETSTAT")
        end = time.monotonic() + 4.0
        while time.monotonic() < end:
            await actor.engine.listen(stage.bench.now() + 0.5)
        calls = first.info("commandstats").get("cmdstat_eval", "calls=0,")
        assert int(calls.removeprefix("calls=").partition(",")[0]) < 25

    stage.mode.run(play())
    down.start()


@pytest.mark.parametrize("reply", [[b"stranger"], [b"stranger", 7], [b"stranger", [1]]])
def test_a_late_reply_that_is_none_of_ours_does_no_harm(stage: Stage, reply: list[Any]) -> None:
    async def play() -> None:
        actor = stage.actor()
        assert (await actor.claim(actor.ask("first", ttl=40))).granted
        assert isinstance(actor.engine, RedlockEngine)
        actor.engine._late(0, reply)
        assert actor.engine._chores._joins == {}

    stage.mode.run(play())
