"""Traps of Redlock, on five nodes behind proxies: 31 and 48 are in tests/contract."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from lockfast.core.validity import State
from lockfast.engines.redlock.scripts import CLAIM, RENEW
from lockfast.errors import EngineRefused, LeaseLost, Loss
from lockfast.port import SHARED, Kind
from lockfast.testing import MODES, Stage
from lockfast.testing.harness.verbs import acquire, queue, release, try_acquire, wait_lost
from tests.contract.benches import RedlockBench
from tests.servers import Proxy, Redis, RedlockSet
from tests.servers.redlock import url_of
from tests.traps.keyspace import drop, keys


@pytest.fixture(scope="module")
def servers() -> Iterator[RedlockSet]:
    with RedlockSet() as nodes:
        yield nodes


@pytest.fixture
def proxies(servers: RedlockSet) -> Iterator[list[Proxy]]:
    with ExitStack() as stack:
        yield [stack.enter_context(Proxy(node.host, node.port)) for node in servers.nodes]


@pytest.fixture(params=sorted(MODES))
def stage(
    request: pytest.FixtureRequest, servers: RedlockSet, proxies: list[Proxy]
) -> Iterator[Stage]:
    bench = RedlockBench(servers)
    bench.url = url_of(*servers.nodes, addresses=[proxy.address for proxy in proxies])
    mode = MODES[request.param]()
    stage = Stage(bench, mode)
    yield stage
    mode.run(stage.clear())
    mode.close()


def claims(request: bytes) -> bool:
    return CLAIM.sha.encode() in request


def has(node: Redis, name: str = "x") -> bool:
    return bool(keys(node, f"lockfast:*={name}"))


def test_trap_32_what_was_accepted_without_an_answer_is_freed_there_too(
    servers: RedlockSet, proxies: list[Proxy], stage: Stage
) -> None:
    async def play() -> None:
        client = stage.client()
        await release(await acquire(client.lock("warm", ttl=30.0)))
        # A majority is enough for the lines above, and a node without a connection gets no claim.
        await stage.mode.until(lambda: all(p.connections for p in proxies), "connections")
        proxies[3].lose_reply_matching(claims)
        lease = await acquire(client.lock("x", ttl=30.0))
        await stage.mode.until(lambda: has(servers.nodes[3]), "the node has accepted")
        await release(lease)
        await stage.mode.until(lambda: not any(map(has, servers.nodes)), "freed everywhere")

    stage.mode.run(play())


@pytest.mark.parametrize("ending", ["the connection ends later", "the connection stays silent"])
def test_trap_32_a_release_that_a_node_never_got_is_repeated_by_an_idle_client(
    servers: RedlockSet, proxies: list[Proxy], stage: Stage, ending: str
) -> None:
    """A majority had confirmed it, and nobody noticed that the connection to this node ended."""

    async def play() -> None:
        client = stage.client()
        lease = await acquire(client.lock("x", ttl=60.0))
        await stage.mode.until(lambda: all(map(has, servers.nodes)), "held everywhere")
        proxies[3].cut()
        await release(lease)
        proxies[3].heal()
        if ending == "the connection ends later":
            await stage.mode.sleep(0.1)
            proxies[3].reset()
        await stage.mode.until(lambda: not any(map(has, servers.nodes)), "freed everywhere")

    stage.mode.run(play())


def test_trap_32_a_release_that_a_node_missed_is_told_again_when_it_is_back(
    servers: RedlockSet, proxies: list[Proxy], stage: Stage
) -> None:
    async def play() -> None:
        client = stage.client()
        await release(await acquire(client.lock("warm", ttl=30.0)))
        await stage.mode.until(lambda: all(p.connections for p in proxies), "connections")
        lease = await acquire(client.lock("x", ttl=30.0))
        await stage.mode.until(lambda: all(map(has, servers.nodes)), "all have it")
        proxies[1].cut()
        proxies[1].reset()
        await release(lease)
        assert has(servers.nodes[1])
        proxies[1].heal()
        proxies[1].reset()
        # Long before its ttl, though this client asks for nothing more.
        await stage.mode.until(lambda: not has(servers.nodes[1]), "freed there too")

    stage.mode.run(play())


def test_trap_33_a_renewal_extends_what_is_held_and_never_by_the_mark(
    servers: RedlockSet, stage: Stage
) -> None:
    async def play() -> None:
        client = stage.client()
        await release(await acquire(client.lock("warm", ttl=1.0)))
        lease = await acquire(client.lock("x", ttl=1.0))
        await stage.mode.until(lambda: all(map(has, servers.nodes)), "all have it")
        drop(servers.nodes[0], "x")  # a minority: it stays held, and is not brought back
        assert not await wait_lost(lease, 1.5)
        assert lease.state is State.HELD
        assert not has(servers.nodes[0])
        for node in servers.nodes[1:3]:
            drop(node, "x")  # their marks still show its token
        assert await wait_lost(lease, 5.0)
        assert lease.loss is Loss.GONE
        with pytest.raises(LeaseLost):
            await release(lease)
        await stage.mode.until(lambda: not any(map(has, servers.nodes)), "freed everywhere")

    stage.mode.run(play())


def test_trap_33_a_lease_that_a_majority_did_not_renew_is_lost_in_time(
    proxies: list[Proxy], stage: Stage
) -> None:
    def renewals(request: bytes) -> bool:
        return RENEW.sha.encode() in request

    async def play() -> None:
        lease = await acquire(stage.client().lock("x", ttl=1.0))
        began = time.monotonic()
        for proxy in proxies[:3]:
            proxy.hold_requests(renewals)
        assert await wait_lost(lease, 5.0)
        assert time.monotonic() - began < 2.5
        assert lease.loss is Loss.UNREACHABLE
        for proxy in proxies[:3]:
            proxy.release_requests()
        assert lease.state is State.LOST

    stage.mode.run(play())


def test_trap_33_permits_and_readers_are_refused_with_the_reason(stage: Stage) -> None:
    async def play() -> None:
        actor = stage.actor()
        for kind, capacity in ((Kind.SEMAPHORE, 2), (Kind.SEMAPHORE, 1), (Kind.READ_WRITE, SHARED)):
            with pytest.raises(EngineRefused, match=r"exclusive locks only.*two majorities"):
                await actor.claim(actor.ask(kind=kind, capacity=capacity))

    stage.mode.run(play())


def test_trap_43_validity_counts_from_before_the_send(proxies: list[Proxy], stage: Stage) -> None:
    async def play() -> None:
        client = stage.client()
        await release(await acquire(client.lock("warm", ttl=30.0)))
        for proxy in proxies:
            proxy.delay(0.0, replies=0.3)
        lease = await acquire(client.lock("x", ttl=2.0))
        assert lease.remaining < 1.7
        for proxy in proxies:
            proxy.heal()
        await release(lease)

    stage.mode.run(play())


def test_trap_43_a_retry_has_what_its_first_copy_has_left(
    proxies: list[Proxy], stage: Stage
) -> None:
    async def play() -> None:
        actor = stage.actor()
        warm = actor.ask("warm")
        await actor.claim(warm)
        await actor.resign(warm)
        ask = actor.ask(ttl=20)
        first = await actor.claim(ask)
        await stage.mode.sleep(0.5)
        again = await actor.claim(ask)
        assert (again.ticket, again.granted) == (first.ticket, True)
        assert again.left < first.left - 0.4

    del proxies
    stage.mode.run(play())


def test_trap_47_a_copy_that_arrives_after_the_resignation_is_refused(
    servers: RedlockSet, proxies: list[Proxy], stage: Stage
) -> None:
    async def play() -> None:
        actor, other = stage.actor(), stage.actor()
        for each in (actor, other):
            warm = each.ask("warm")
            await each.claim(warm)
            await each.resign(warm)
        for proxy in proxies[3:]:
            proxy.hold_requests(claims, count=1)
        ask = actor.ask(ttl=30)
        assert (await actor.claim(ask)).granted
        await stage.mode.until(lambda: all(p.held for p in proxies[3:]), "two are on their way")
        assert await other.resign(ask) == [True]  # it goes by connections of its own
        await stage.mode.until(lambda: not any(map(has, servers.nodes)), "freed")
        for proxy in proxies[3:]:
            assert proxy.release_requests()
        # Not at once: a minority may get the resignation only now. What is kept stays for its ttl.
        await stage.mode.until(lambda: not any(map(has, servers.nodes)), "refused")
        assert await actor.entries("x") == []

    stage.mode.run(play())


def test_trap_47_a_copy_of_a_waiter_that_has_left_does_not_wait_again(
    proxies: list[Proxy], stage: Stage
) -> None:
    async def play() -> None:
        actor, other = stage.actor(), stage.actor()
        holder, waiter = other.ask(ttl=30), actor.ask(ttl=30)
        await other.claim(holder)
        warm = actor.ask("warm")
        await actor.claim(warm)
        await actor.resign(warm)
        proxies[4].hold_requests(claims, count=1)
        assert not (await actor.claim(waiter)).granted
        await stage.mode.until(lambda: proxies[4].held, "one is on its way")
        assert await other.resign(waiter) == [True]
        assert proxies[4].release_requests()
        assert [entry.id for entry in await other.entries("x")] == [holder.id]

    stage.mode.run(play())


def test_trap_38_a_waiter_that_is_told_and_does_not_come_holds_up_for_a_moment_only(
    stage: Stage,
) -> None:
    async def play() -> None:
        actor, client = stage.actor(), stage.client()
        lease = await acquire(client.lock("x", ttl=30.0))
        gone = actor.ask(ttl=30)
        assert not (await actor.claim(gone)).granted  # it has waited longest, and hears nothing
        job = stage.mode.start(acquire(stage.client().lock("x", ttl=30.0), 20))
        lock = client.lock("x", ttl=30.0)
        while len(await queue(lock)) != 3:
            await stage.mode.sleep(0.01)
        began = time.monotonic()
        await release(lease)
        assert await try_acquire(lock) is None  # it is kept for the one that was told
        following = await job.result()
        assert time.monotonic() - began < 3
        await release(following)

    stage.mode.run(play())
