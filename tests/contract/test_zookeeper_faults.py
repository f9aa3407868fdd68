"""ZooKeeper in trouble: servers killed and paused, connections cut, sessions lost."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Any

import pytest
from kazoo.client import KazooClient
from kazoo.protocol.states import ZnodeStat

import lockfast
from lockfast import Level, aio
from lockfast.core.validity import State
from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.engine import ZooKeeperEngine
from lockfast.engines.zookeeper.own_claims import OwnClaim
from lockfast.engines.zookeeper.renewals import CHUNK
from lockfast.engines.zookeeper.session import Session
from lockfast.engines.zookeeper.transport import Reply, Transport
from lockfast.errors import (
    EngineRefused,
    EngineUnavailable,
    GuaranteeMissing,
    LeaseLost,
    Loss,
)
from lockfast.port import EVERYONE, Ask
from lockfast.testing import MODES, Actor, Stage
from lockfast.testing.harness.verbs import AnyClient, acquire, queue, release, try_acquire
from tests.contract.benches import ZooKeeperBench
from tests.contract.zookeeper_requests import is_create, is_write, through
from tests.robustness.hosts import Network, host_of
from tests.servers import Proxy, ZooKeeper, ZooKeeperEnsemble, free_port, wait_until

SOON = 6.0  # seconds within which everything is well again, on a busy machine too


@pytest.fixture(scope="module")
def ensemble() -> Iterator[ZooKeeperEnsemble]:
    # A server that is cut off takes five seconds to notice: some tests are about that time.
    # Folders that are empty go at once, and not after a minute.
    with ZooKeeperEnsemble(
        config={"syncLimit": "50"}, properties={"znode.container.checkIntervalMs": "300"}
    ) as ensemble:
        yield ensemble


@pytest.fixture
def bench(ensemble: ZooKeeperEnsemble) -> ZooKeeperBench:
    ensemble.start()
    return ZooKeeperBench(ensemble)


@pytest.fixture
def proxy(ensemble: ZooKeeperEnsemble) -> Iterator[Proxy]:
    server = ensemble.servers[0]
    with Proxy(server.host, server.port, record=True) as proxy:
        yield proxy


def engine_of(client: AnyClient) -> ZooKeeperEngine:
    """Look inside."""
    engine = client._session.engine
    assert isinstance(engine, ZooKeeperEngine)
    return engine


def sessions_of(client: AnyClient) -> list[KazooClient]:
    """Give the client's sessions, as kazoo knows them."""
    return [session._client for session in engine_of(client)._pool.all()]


def test_when_the_leader_is_killed_everything_goes_on_and_tokens_increase(
    stage: Stage, ensemble: ZooKeeperEnsemble
) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=8.0))
        waiting = stage.mode.start(acquire(other.lock("x", ttl=8.0), 30))
        await stage.mode.until(lambda: lease.waiters == 1, "the holder learns that one waits")
        victim = ensemble.leader()
        began = time.monotonic()
        victim.kill()
        fresh = await acquire(client.lock("fresh", ttl=8.0), 20)
        took = time.monotonic() - began
        print(f"\nleader killed: the next grant after {took:.2f} s")  # noqa: T201  # a figure for people
        assert took < 2 * SOON
        assert fresh.token > lease.token
        await stage.mode.until(lambda: lease.state is State.HELD, "it is renewed again")
        assert not waiting.done()
        await release(lease)
        after = await waiting.result()
        assert after.token > fresh.token or after.token > lease.token
        await release(after)
        again = await acquire(other.lock("x", ttl=8.0), 5)
        assert again.token > max(after.token, fresh.token)
        await release(again)
        await release(fresh)

    stage.mode.run(play())


@pytest.mark.parametrize("number", range(3))
def test_any_minority_may_be_down(ensemble: ZooKeeperEnsemble, number: int) -> None:
    ensemble.start()
    with lockfast.connect(f"{ensemble.url}/minority") as client:
        lease = client.lock("x", ttl=8).acquire()
        ensemble.servers[number].kill()
        began = time.monotonic()
        client.lock("y", ttl=8).acquire(timeout=20).release()
        print(f"\none of three killed: the next grant after {time.monotonic() - began:.2f} s")  # noqa: T201  # a figure for people
        assert time.monotonic() - began < 2 * SOON
        lease.release()
        following = client.lock("x", ttl=8).acquire(timeout=5)
        assert following.token > lease.token
        following.release()


def test_without_a_majority_nothing_is_granted_and_leases_end_by_the_clock(
    stage: Stage, ensemble: ZooKeeperEnsemble
) -> None:
    async def play() -> None:
        client = stage.client()
        began = time.monotonic()
        lease = await acquire(client.lock("x", ttl=2.0))
        for server in ensemble.servers[:2]:
            server.kill()
        with pytest.raises(EngineUnavailable):
            await acquire(client.lock("y", ttl=8.0), 0.5)
        await stage.mode.until(lambda: lease.state is State.LOST, "the loss")
        assert time.monotonic() - began < 2.0 + SOON
        assert lease.loss in {Loss.UNREACHABLE, Loss.EXPIRED}
        ensemble.start()
        again = await acquire(client.lock("x", ttl=8.0), 20)
        assert again.token > lease.token
        await release(again)
        with pytest.raises(LeaseLost):
            await release(lease)

    stage.mode.run(play())


def test_an_interrupted_connection_is_jeopardy_and_its_return_heals_it(
    stage: Stage, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    async def play() -> None:
        through(stage, proxy)
        client = stage.client()
        lease = await acquire(client.lock("x", ttl=30.0))
        proxy.cut()
        proxy.reset()
        await stage.mode.until(lambda: lease.state is State.JEOPARDY, "jeopardy", 2.5)
        assert lease.remaining > 20  # and no beat was due yet
        lease.ensure_held()
        proxy.heal()
        await stage.mode.until(lambda: lease.state is State.HELD, "held again", SOON)
        assert "in jeopardy" in caplog.text
        await release(lease)

    caplog.set_level(logging.WARNING)
    stage.mode.run(play())


def test_a_lost_session_is_a_lost_lease_and_the_next_claim_opens_another(
    stage: Stage, ensemble: ZooKeeperEnsemble
) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=30.0))
        (session,) = sessions_of(client)
        thief = KazooClient(ensemble.servers[0].address, client_id=session.client_id)
        thief.start()
        thief.stop()  # closes the session for good
        thief.close()
        # Before a beat would have told.
        await stage.mode.until(lambda: lease.state is State.LOST, "the loss", 2.5)
        assert lease.loss is Loss.GONE
        following = await acquire(other.lock("x", ttl=12.0), 5)
        assert following.token > lease.token
        again = await acquire(client.lock("y", ttl=12.0), 5)
        await release(again)
        await release(following)
        assert sessions_of(client) != [session]

    stage.mode.run(play())


def test_trap_1_a_lost_reply_to_create_finds_its_own_node(stage: Stage, proxy: Proxy) -> None:
    async def play() -> None:
        through(stage, proxy)
        client = stage.client()
        await release(await acquire(client.lock("x", ttl=12.0)))
        before = len(proxy.requests)
        proxy.lose_reply_matching(is_create)
        lease = await acquire(client.lock("x", ttl=12.0), 10)
        # By its id: the server may have deleted the empty folder meanwhile, which is made again.
        ours = [each for each in proxy.requests[before:] if lease.id.encode() in each]
        assert sum(map(is_create, ours)) == 1
        assert [each.id for each in await queue(client.lock("x"))] == [lease.id]
        assert lease.remaining <= 12.0 * 0.99
        await release(lease)
        assert await queue(client.lock("x")) == []

    stage.mode.run(play())


def test_trap_1_a_create_that_never_arrived_is_sent_again(stage: Stage, proxy: Proxy) -> None:
    async def play() -> None:
        through(stage, proxy)
        client = stage.client()
        await release(await acquire(client.lock("x", ttl=12.0)))
        proxy.hold_requests(is_create, count=1)
        job = stage.mode.start(acquire(client.lock("x", ttl=12.0), 10))
        await stage.mode.until(lambda: proxy.held, "the create is held")
        proxy.reset()  # and what was held is gone with its connection
        lease = await job.result()
        assert [each.id for each in await queue(client.lock("x"))] == [lease.id]
        await release(lease)

    stage.mode.run(play())


async def cut_off_after_a_stat(stage: Stage, actor: Actor, ask: Ask) -> OwnClaim:
    """Forget the name of the claim's node, as if the reply to its creation was lost. Cut the
    connection off in the moment in which the owner of a node is read.
    """
    mine = inside(actor)._own.get(ask.id)
    assert mine is not None
    session, settle = mine.session, mine.session.settle
    mine.child = None

    async def settled(transport: Transport, reply: Reply, deadline: float) -> Any:  # noqa: ANN401  # as settle
        answer = await settle(transport, reply, deadline)
        stat = answer[-1] if isinstance(answer, tuple) else None
        if isinstance(answer, ZnodeStat) or isinstance(stat, ZnodeStat):
            session.settle = settle  # type: ignore[method-assign]
            await cut_off(stage, mine)
        return answer

    session.settle = settled  # type: ignore[method-assign]
    return mine


def test_trap_1_its_own_node_is_found_though_the_connection_is_lost_just_then(stage: Stage) -> None:
    """kazoo knows the number of its session only while it is connected."""

    async def play() -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=30)
        await actor.claim(ask)
        mine = await cut_off_after_a_stat(stage, actor, ask)
        assert (await actor.renew_one(ask)).granted
        assert not mine.session.usable

    stage.mode.run(play())


def test_a_withdrawn_claim_is_removed_though_the_connection_is_lost_just_then(stage: Stage) -> None:
    async def play() -> None:
        actor, other = stage.actor(), stage.actor()
        ask = actor.ask(ttl=30)
        await actor.claim(ask)
        mine = await cut_off_after_a_stat(stage, actor, ask)
        await inside(actor)._recipe.withdraw(mine, stage.bench.now() + 1.0)
        assert ask.id in [entry.id for entry in await other.entries("x")]
        mine.session._client.set_hosts(mine.session.where)
        await stage.mode.until(lambda: not inside(actor)._own.doomed(0.0), "the reaper removes it")
        assert await other.entries("x") == []
        assert not mine.session.lost

    stage.mode.run(play())


def test_a_claim_that_was_broken_before_its_reply_was_known_stays_dead(
    stage: Stage, proxy: Proxy
) -> None:
    async def play() -> None:
        past = through(stage, proxy)
        actor = stage.actor()
        stage.bench.url = past  # type: ignore[attr-defined]  # of the bench that `through` has seen
        breaker = stage.actor()
        await actor.claim(actor.ask("other", ttl=30))  # there is a session
        ask = actor.ask(ttl=30)
        proxy.lose_reply_matching(is_create)
        with pytest.raises(EngineUnavailable):
            await actor.claim(ask)
        assert [each.id for each in await breaker.entries("x")] == [ask.id]
        assert await breaker.resign(ask, doubt=True) == [True]
        assert await actor.is_dead(ask)
        assert await breaker.entries("x") == []

    stage.mode.run(play())


def test_trap_24_tokens_go_on_though_the_sequence_begins_anew(
    stage: Stage, ensemble: ZooKeeperEnsemble
) -> None:
    bench = stage.bench
    assert isinstance(bench, ZooKeeperBench)
    folder = nodes.folder("/" + bench.url.split("/", 3)[3], "x")
    onlooker = KazooClient(ensemble.servers[0].address)
    onlooker.start()

    def gone() -> bool:
        onlooker.sync("/")  # its server may be behind
        return onlooker.exists(folder) is None

    async def play() -> None:
        client = stage.client()
        first = await acquire(client.lock("x", ttl=8.0))
        await release(first)
        await stage.mode.until(gone, "its folder is gone")
        second = await acquire(client.lock("x", ttl=8.0), 5)
        onlooker.sync(folder)
        (child,) = onlooker.get_children(folder)
        assert child.endswith("-0000000000")
        assert second.token > first.token
        await release(second)

    try:
        stage.mode.run(play())
    finally:
        onlooker.stop()
        onlooker.close()


@pytest.fixture(scope="module")
def worn() -> Iterator[ZooKeeperBench]:
    """A server on which two more claims on x exhaust the counter."""
    with ZooKeeper(properties={"zookeeper.digest.enabled": "false"}) as server:
        with lockfast.connect(f"{server.url}/worn") as client:
            client.lock("x", ttl=8).acquire().release()
        server.set_counter(nodes.folder("/worn", "x"), 2**31 - 3)
        bench = ZooKeeperBench(server)
        bench.url = f"{server.url}/worn"
        yield bench


@pytest.mark.parametrize("mode", sorted(MODES))
def test_trap_49_a_counter_that_is_exhausted_changes_no_order(
    worn: ZooKeeperBench, mode: str
) -> None:
    url = worn.url
    stage = Stage(worn, MODES[mode]())
    worn.url = url  # the counter is of this very node

    async def play() -> None:
        actors = [stage.actor() for _ in range(3)]
        queue = [(actor, actor.ask(ttl=60)) for actor in actors * 3]
        tickets = [(await actor.claim(ask)).ticket for actor, ask in queue]
        assert tickets == sorted(set(tickets))
        sequences = [mine.child.rpartition("-")[2] for mine in _mine(actors) if mine.child]
        assert len(set(sequences)) < len(sequences)  # the server has given a number twice
        for place, (actor, ask) in enumerate(queue):
            standings = [await each.renew_one(other) for each, other in queue[place:]]
            assert [s.granted for s in standings] == [True] + [False] * (len(standings) - 1)
            assert [s.ahead for s in standings] == list(range(len(standings)))
            assert await actor.resign(ask) == [True]

    stage.mode.run(play())
    stage.mode.run(stage.clear())
    stage.mode.close()


def _mine(actors: list[Actor]) -> list[OwnClaim]:
    found = []
    for actor in actors:
        assert isinstance(actor.engine, ZooKeeperEngine)
        found += list(actor.engine._own._mine.values())
    return found


def test_trap_43_a_server_that_is_cut_off_keeps_no_lease_alive(
    stage: Stage, ensemble: ZooKeeperEnsemble
) -> None:
    # It goes on answering lists and pings for `syncLimit`; only the leader knows of sessions.
    follower = ensemble.followers()[0]
    others = [server for server in ensemble.servers if server is not follower]
    bench = stage.bench
    assert isinstance(bench, ZooKeeperBench)
    bench.url = f"{follower.url}/{bench.url.split('/', 3)[3]}"
    onlooker = KazooClient(follower.address)
    onlooker.start()

    async def play() -> None:
        client = stage.client()
        lease = await acquire(client.lock("x", ttl=2.0))
        for server in others:
            server.pause()
        try:
            began = time.monotonic()
            await stage.mode.until(lambda: lease.state is State.LOST, "the loss", 4.0)
            assert time.monotonic() - began < 3.0
            assert onlooker.get_children("/") != []  # it still answers
        finally:
            for server in others:
                server.resume()

    try:
        stage.mode.run(play())
    finally:
        onlooker.stop()
        onlooker.close()
        wait_until(lambda: all(server.mode() for server in ensemble.servers), "all serve again", 20)


@pytest.fixture
def hosts() -> Iterator[ZooKeeperEnsemble]:
    """Servers that can be cut off from each other. The last one leads at first, and takes longer
    than the others to notice that nobody follows it: for seconds, and not for milliseconds.
    """
    with Network() as network:
        ensemble = ZooKeeperEnsemble(homes=[network.host() for _ in range(3)])
        for server, patience in zip(ensemble.servers, ("10", "10", "80"), strict=True):
            server.configure(syncLimit=patience)
        try:
            for server in ensemble.servers[1:]:
                server.launch()
            wait_until(lambda: ensemble.servers[2].mode() == "leader", "the last one leads", 30)
            yield ensemble.start()
        finally:
            ensemble.close()


def test_a_deposed_leader_extends_no_lease(hosts: ZooKeeperEnsemble) -> None:
    # Paused and cut off, it does not know that it was replaced; when it goes on it still answers
    # whatever it can answer alone. The successor has started the session's timeout anew.
    *others, leader = hosts.servers
    ttl = 4.0
    addresses = ",".join(server.address for server in others)
    with (
        lockfast.connect(f"{leader.url}/deposed") as client,
        lockfast.connect(f"zookeeper://{addresses}/deposed") as other,
    ):
        lease = client.lock("x", ttl=ttl).acquire(timeout=SOON)
        host_of(leader).cut(*map(host_of, others))
        leader.pause()
        wait_until(lambda: any(each.mode() == "leader" for each in others), "a successor", ttl)
        wait_until(lambda: lease.remaining < 0.2 * ttl, "the lease is nearly over", ttl)
        leader.resume()
        ends = time.monotonic() + 0.5
        while time.monotonic() < ends and lease.remaining < 0.5 * ttl:
            time.sleep(0.005)
        assert leader.mode() == "leader"  # it does not know yet, and the test has tested something
        leader.pause()
        following = other.lock("x", ttl=ttl).acquire(timeout=ttl + SOON)
        state, left = lease.state, lease.remaining
        leader.kill()  # a client that leaves would wait for it
        assert following.token > lease.token
        assert state is State.LOST, f"both hold the lock, for {left:.1f} s more"
        following.release()


def test_trap_47_a_late_create_does_not_come_to_life_after_its_resignation(
    stage: Stage, proxy: Proxy, ensemble: ZooKeeperEnsemble
) -> None:
    async def play() -> None:
        # The client gets to know a second server, by which it goes on while its create is held.
        elsewhere = through(stage, proxy)
        client = stage.client()
        lock = client.lock("x", ttl=3.0)
        await release(await acquire(lock))
        (session,) = sessions_of(client)
        session.set_hosts(ensemble.servers[1].address)
        proxy.hold_requests(is_create, count=1)
        with pytest.raises(EngineUnavailable):
            await acquire(lock, 0.3)
        onlooker = lockfast.connect(elsewhere)
        await stage.mode.until(lambda: not len(client._session.table), "the resignation", SOON)
        proxy.release_requests()  # now it arrives
        await stage.mode.sleep(0.3)
        assert onlooker.lock("x").queue() == []
        assert [s.client_id for s in sessions_of(client)] == [session.client_id]  # it lives on
        onlooker.close()

    stage.mode.run(play())


def test_a_blocked_loop_does_not_hold_its_lock_for_ever(ensemble: ZooKeeperEnsemble) -> None:
    # Nothing renews it after `at_most`, but kazoo's thread keeps its session: the reaper ends it.
    ensemble.start()
    url = f"{ensemble.url}/blocked"

    async def main() -> None:
        async with aio.connect(url) as client:
            lease = await client.lock("x", ttl=1.0, at_most=0.1).acquire()
            with lockfast.connect(url) as other:
                began = time.monotonic()
                following = other.lock("x", ttl=8.0).acquire(timeout=SOON)  # blocks the loop
                assert 0.8 < time.monotonic() - began < 1.0 + SOON
                assert lease.state is State.LOST
                assert following.token > lease.token
                following.release()
            with pytest.raises(LeaseLost):
                await lease.release()

    asyncio.run(main())


def test_a_waiter_watches_its_predecessor_alone(ensemble: ZooKeeperEnsemble) -> None:
    ensemble.start()
    url = f"{ensemble.url}/herd"

    async def main() -> None:
        clients = [aio.connect(url) for _ in range(6)]
        leases = [await clients[0].lock("x", ttl=8.0).acquire()]
        before = watches()
        tasks = []
        for place, client in enumerate(clients[1:], 2):
            tasks.append(asyncio.create_task(client.lock("x", ttl=8.0).acquire().__aenter__()))
            while len(await clients[0].lock("x").queue()) < place:  # noqa: ASYNC110  # a server's
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.1)
        # Each on its predecessor and on the token base, and the first in line on its own node.
        assert watches() - before == 2 * 5 + 1
        for task in tasks:
            await leases[-1].release()
            leases.append(await task)
        await leases[-1].release()
        for client in clients:
            await client.close()

    def watches() -> int:
        lines = "\n".join(server.command("mntr") for server in ensemble.servers).splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith("zk_watch_count"))

    asyncio.run(main())


def test_consensus_is_not_promised_by_a_version_that_may_forget_grants(
    ensemble: ZooKeeperEnsemble,
) -> None:
    ensemble.start()
    with lockfast.connect(ensemble.url, require="fenced") as client:
        found = client.guarantees()
        assert found.engine == "ZooKeeper 3.8.0, 3 voting members"
        assert found.level is Level.FENCED
        assert "findings" in found.promise
        # The harness has seen it: 3.8.0 loses what it acknowledged (docs/robustness).
        assert "version = 3.8.0" in [each.setting for each in found.findings]
        assert "3.9.4" in found.findings[0].remedy
        client.lock("x", ttl=5).acquire(timeout=5).release()
    with (
        lockfast.connect(ensemble.url, require="consensus") as client,
        pytest.raises(GuaranteeMissing, match="consensus"),
    ):
        client.lock("x", ttl=5).acquire(timeout=5)


@pytest.mark.parametrize(
    ("version", "level"),
    [
        ("3.9.3", Level.FENCED),
        ("3.9.4", Level.CONSENSUS),
        ("3.10.0", Level.CONSENSUS),
        (None, Level.FENCED),
    ],
)
def test_three_voting_members_of_a_sound_version_promise_consensus(
    ensemble: ZooKeeperEnsemble,
    monkeypatch: pytest.MonkeyPatch,
    version: str | None,
    level: Level,
) -> None:
    # What `srvr` answers; nothing, if the ensemble does not allow it.
    said = "" if version is None else f"Zookeeper version: {version}-abc, built on 1/1/25"
    monkeypatch.setattr("lockfast.engines.zookeeper.session.Session.command", lambda *_: said)
    ensemble.start()
    with lockfast.connect(ensemble.url) as client:
        assert client.guarantees().level is level


def test_a_ttl_that_the_server_does_not_keep_is_refused_and_the_bound_named(
    ensemble: ZooKeeperEnsemble,
) -> None:
    ensemble.start()
    with lockfast.connect(f"{ensemble.url}/bounds") as client:
        with pytest.raises(EngineRefused, match=r"at least 0\.2 s.*minSessionTimeout"):
            client.lock("x", ttl=0.1).acquire(timeout=5)
        with pytest.raises(EngineRefused, match=r"at most 4000 s.*maxSessionTimeout"):
            client.lock("x", ttl=5000).acquire(timeout=5)
        client.lock("x", ttl=5).acquire(timeout=5).release()


def test_sixteen_ttls_at_once_are_enough_and_an_idle_session_makes_room(
    ensemble: ZooKeeperEnsemble,
) -> None:
    ensemble.start()
    with lockfast.connect(f"{ensemble.url}/ttls") as client:
        leases = [client.lock(f"x {n}", ttl=10 + n).acquire(timeout=5) for n in range(16)]
        with pytest.raises(EngineRefused, match="16 different ttls"):
            client.lock("y", ttl=9).acquire(timeout=5)
        leases[3].release()
        client.lock("y", ttl=9).acquire(timeout=5).release()
        for lease in leases[4:]:
            lease.ensure_held()
            lease.release()


def test_a_session_in_use_does_not_make_room_for_another(ensemble: ZooKeeperEnsemble) -> None:
    """It has no claim yet. One that is granted meanwhile would go with it, unknown to anybody."""
    ensemble.start()
    with lockfast.connect(f"{ensemble.url}/room") as client:
        client.lock("warm", ttl=6.0).acquire().release()
        engine = engine_of(client)
        with engine._pool.of(6.0) as session:
            for number in range(20):
                client.lock("x", ttl=7.0 + number / 10.0).acquire().release()
            assert not session.lost
        for number in range(20):
            client.lock("x", ttl=7.0 + number / 10.0).acquire().release()
        assert session.lost  # afterwards it does


@pytest.mark.parametrize("mode", sorted(MODES))
def test_callers_on_a_silent_server_cost_no_lease_on_another(mode: str) -> None:
    """A hundred of them took all turns, and the heart waited for one."""
    with (
        ZooKeeper() as server,
        Proxy(server.host, server.port) as one,
        Proxy(server.host, server.port) as two,
    ):
        stage = Stage(ZooKeeperBench(server), MODES[mode]())
        stage.bench.url = f"zookeeper://{one.address},{two.address}/many"  # type: ignore[attr-defined]  # of that bench

        async def attempt(client: AnyClient, number: int, ttl: float) -> None:
            with pytest.raises(EngineUnavailable):
                await acquire(client.lock(f"m{number}", ttl=ttl), 3.0)

        async def play() -> None:
            client = stage.client()
            lease = await acquire(client.lock("held", ttl=4.0))
            good = one if one.open_connections else two
            bad = two if good is one else one
            for ttl in range(8, 20):
                await release(await acquire(client.lock("w", ttl=ttl)))
                if bad.open_connections:
                    break
            assert bad.open_connections
            bad.cut()
            await stage.mode.together(*(attempt(client, each, ttl) for each in range(100)))
            lease.ensure_held()
            bad.heal()

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


async def disconnect(stage: Stage, actor: Actor, ask: Ask) -> OwnClaim:
    """Let the claim's session know no host where a server listens."""
    mine = inside(actor)._own.get(ask.id)
    assert mine is not None
    await cut_off(stage, mine)
    return mine


async def cut_off(stage: Stage, mine: OwnClaim) -> None:
    """Let a claim's session know no host where a server listens."""
    mine.session._client.set_hosts(f"127.0.0.1:{free_port()}")

    def disconnected() -> bool:
        # Again, because kazoo first tries the hosts that it knew before. Only the new one refuses.
        mine.session._cut()
        return bool(mine.session._handler.trouble) and not mine.session.usable

    await stage.mode.until(disconnected, "its session has no connection")


async def expire(stage: Stage, actor: Actor, ask: Ask) -> OwnClaim:
    """Disconnect the claim's session, and let the claim expire long before the session does. So the
    server still has its node.
    """
    mine = await disconnect(stage, actor, ask)
    mine.deadline = stage.bench.now()
    inside(actor)._reaper.expect(mine.deadline)
    await stage.mode.until(lambda: mine in inside(actor)._own.doomed(0.0), "it expires")
    return mine


def inside(actor: Actor) -> ZooKeeperEngine:
    """Return the actor's engine."""
    assert isinstance(actor.engine, ZooKeeperEngine)
    return actor.engine


async def reaped(stage: Stage, actor: Actor, mine: OwnClaim) -> None:
    """Give a session its hosts back, and wait until the reaper has removed the expired claim. The
    server has not done it, because the session still lives.
    """
    assert mine.id in [entry.id for entry in await actor.entries("x")]
    mine.session._client.set_hosts(mine.session.where)
    await stage.mode.until(lambda: not inside(actor)._own.doomed(0.0), "the reaper removes it")
    assert mine.id not in [entry.id for entry in await actor.entries("x")]
    assert not mine.session.lost


def test_a_renewal_does_not_wait_for_the_session_of_an_expired_claim(stage: Stage) -> None:
    """Each renewal waited until its deadline and failed, until the healthy lease was lost."""

    async def play() -> None:
        actor = stage.actor()
        short, long = actor.ask(ttl=50, capacity=2), actor.ask(ttl=20, capacity=2)
        for ask in (short, long):
            assert (await actor.claim(ask)).granted
        mine = await expire(stage, actor, short)
        for _ in range(2):
            began = stage.bench.now()
            assert (await actor.renew_one(long)).granted
            assert stage.bench.now() < began + 4.0  # the fault cost five
        await reaped(stage, actor, mine)

    stage.mode.run(play())


def test_a_claim_does_not_wait_for_the_session_of_an_expired_claim(stage: Stage) -> None:
    """Each claim waited until its deadline and failed, although its own session was healthy."""

    async def play() -> None:
        actor = stage.actor()
        short, long = actor.ask(ttl=50, capacity=2), actor.ask(ttl=60, capacity=2)
        assert (await actor.claim(short)).granted
        await actor.claim(actor.ask("warm", ttl=60))  # the session for this ttl is connected
        mine = await expire(stage, actor, short)
        began = stage.bench.now()
        assert (await actor.claim(long)).granted
        waiting = actor.ask(ttl=60, capacity=2)
        assert not (await actor.claim(waiting)).granted  # the server still counts the expired one
        refused = actor.ask(ttl=60, capacity=2, queue=False)
        assert not (await actor.claim(refused)).granted
        assert stage.bench.now() < began + 4.0  # the fault cost five
        await reaped(stage, actor, mine)
        assert (await actor.renew_one(waiting)).granted

    stage.mode.run(play())


def test_a_resignation_does_not_wait_for_the_session_of_another_expired_claim(
    stage: Stage,
) -> None:
    """Each release waited until its deadline and failed, and kept the lock from others."""

    async def play() -> None:
        actor = stage.actor()
        short, long = actor.ask(ttl=50, capacity=2), actor.ask(ttl=60, capacity=2)
        for ask in (short, long):
            assert (await actor.claim(ask)).granted
        mine = await expire(stage, actor, short)
        began = stage.bench.now()
        assert await actor.resign(long) == [True]
        assert stage.bench.now() < began + 4.0  # the fault cost five
        await reaped(stage, actor, mine)

    stage.mode.run(play())


def test_a_resignation_of_an_expired_claim_holds_up_no_other(stage: Stage) -> None:
    """The others were sent only after the server had answered for the expired claim."""

    async def play() -> None:
        actor, onlooker = stage.actor(), stage.actor()
        short, long = actor.ask(ttl=50, capacity=2), actor.ask(ttl=60, capacity=2)
        for ask in (short, long):
            assert (await actor.claim(ask)).granted
        mine = await expire(stage, actor, short)
        soon = stage.bench.now() + 0.5
        first, second = await actor.engine.resign([short, long], soon, doubt=False)
        assert isinstance(first, EngineUnavailable)  # only its own session can tell that it is gone
        assert second is True
        assert long.id not in [entry.id for entry in await onlooker.entries("x")]
        mine.session._client.set_hosts(mine.session.where)
        assert await actor.resign(short) == [False]
        assert await onlooker.entries("x") == []

    stage.mode.run(play())


def test_a_resignation_of_many_sends_all_that_it_can(stage: Stage) -> None:
    """The sixty-fifth was not sent if one of the first had no connection."""

    async def play() -> None:
        actor, onlooker = stage.actor(), stage.actor()
        first = actor.ask("first", ttl=50)
        others = [actor.ask(ttl=60, capacity=CHUNK) for _ in range(CHUNK)]
        for ask in (first, *others):
            assert (await actor.claim(ask)).granted
        mine = await disconnect(stage, actor, first)
        soon = stage.bench.now() + 2.0
        failed, *removed = await actor.engine.resign([first, *others], soon, doubt=False)
        assert isinstance(failed, EngineUnavailable)
        assert removed == [True] * CHUNK
        assert await onlooker.entries("x") == []
        mine.session._client.set_hosts(mine.session.where)
        assert await actor.resign(first) == [True]

    stage.mode.run(play())


def test_the_reaper_gives_up_a_session_that_never_comes_back(stage: Stage) -> None:
    """kazoo may never learn that it has expired: see `_outlive`. The reaper asked for ever."""

    async def play() -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=50)
        assert (await actor.claim(ask)).granted
        mine = await expire(stage, actor, ask)
        mine.session._down = stage.bench.now() - 1000.0
        await stage.mode.until(lambda: not inside(actor)._own.doomed(0.0), "it is forgotten", SOON)
        assert mine.session.lost
        assert mine.session not in inside(actor)._pool.all()

    stage.mode.run(play())


async def move(stage: Stage, actor: Actor, ask: Ask, proxy: Proxy) -> OwnClaim:
    """Let the claim's session go by way of the proxy, and no other session."""
    mine = inside(actor)._own.get(ask.id)
    assert mine is not None
    mine.session._client.set_hosts(proxy.address)

    def moved() -> bool:
        if not proxy.open_connections:
            mine.session._cut()
        return bool(proxy.open_connections) and mine.session.usable

    await stage.mode.until(moved, "its session goes by way of the proxy")
    return mine


def test_a_session_that_falls_silent_holds_up_no_claim_on_another(
    stage: Stage, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody has found out yet that its server does not answer."""

    async def play() -> None:
        actor = stage.actor()
        short, long = actor.ask(ttl=12, capacity=3), actor.ask(ttl=60, capacity=3)
        for ask in (short, long):
            assert (await actor.claim(ask)).granted
        mine = await move(stage, actor, short, proxy)
        monkeypatch.setattr(Session, "silent", False)
        # Not earlier, because kazoo would notice the silence and close the connection.
        await stage.mode.until(lambda: stage.bench.now() > mine.deadline - 0.2, "its last moments")
        proxy.cut()
        await stage.mode.until(lambda: stage.bench.now() > mine.deadline, "it expires")
        assert mine.session.usable
        began = stage.bench.now()
        assert (await actor.renew_one(long)).granted
        assert (await actor.claim(actor.ask(ttl=60, capacity=3))).granted
        assert await actor.resign(long) == [True]
        assert stage.bench.now() < began + 4.0  # a second each, at most
        proxy.heal()
        await reaped(stage, actor, mine)

    stage.mode.run(play())


def test_the_reaper_does_not_wait_for_a_silent_session_claim_by_claim(
    stage: Stage, proxy: Proxy
) -> None:
    """Each of its claims took two seconds, and those of healthy sessions came after them all."""

    async def play() -> None:
        actor, onlooker = stage.actor(), stage.actor()
        stuck = [actor.ask("stuck", ttl=60, capacity=5) for _ in range(5)]
        healthy = actor.ask(ttl=50)
        for ask in (*stuck, healthy):
            assert (await actor.claim(ask)).granted
        await move(stage, actor, stuck[0], proxy)
        proxy.cut()
        began = stage.bench.now()
        for mine in _mine([actor]):
            mine.deadline = began
        inside(actor)._reaper.expect(began)
        while healthy.id in [entry.id for entry in await onlooker.entries("x")]:
            assert stage.bench.now() < began + 5.0, "the healthy session's claim is still there"
            await stage.mode.sleep(0.1)
        proxy.heal()
        await stage.mode.until(lambda: not inside(actor)._own.doomed(0.0), "all are removed")
        assert await onlooker.entries("stuck") == []

    stage.mode.run(play())


def test_a_paused_server_keeps_nobody_waiting_for_longer_than_asked(
    stage: Stage, ensemble: ZooKeeperEnsemble
) -> None:
    async def play() -> None:
        client = stage.client()
        await release(await acquire(client.lock("warm", ttl=8.0)))
        for server in ensemble.servers:
            server.pause()
        try:
            began = time.monotonic()
            with pytest.raises(EngineUnavailable):
                await acquire(client.lock("x", ttl=8.0), 0.5)
            assert time.monotonic() - began < 0.5 + SOON / 2
        finally:
            for server in ensemble.servers:
                server.resume()
        other = stage.client()
        lease = await acquire(other.lock("x", ttl=8.0), 20)  # the orphan was given up
        assert await try_acquire(client.lock("x", ttl=8.0)) is None
        await release(lease)

    stage.mode.run(play())


def test_a_grant_that_a_watch_and_a_look_both_find_is_pushed_once(
    stage: Stage, proxy: Proxy
) -> None:
    async def play() -> None:
        past = through(stage, proxy)
        waiter = stage.actor()
        stage.bench.url = past  # type: ignore[attr-defined]  # of the bench that `through` has seen
        holder = stage.actor()
        await waiter.attend()
        held, asked = holder.ask(ttl=30), waiter.ask(ttl=30)
        await holder.claim(held)
        assert not (await waiter.claim(asked)).granted
        engine = waiter.engine
        assert isinstance(engine, ZooKeeperEngine)
        (mine,) = engine._own.within(nodes.folder(engine._address.root, "x"))
        # What tells of the end comes while a look is under way, which finds it too.
        proxy.delay(0.0, replies=0.3)
        await holder.resign(held)
        engine._listener.worth_a_look(mine.session, mine.folder)
        pushes = await engine.listen(stage.bench.now() + 1.0)
        pushes += await engine.listen(stage.bench.now() + 1.0)
        assert [wake.id for wake in pushes if wake.granted] == [asked.id]

    stage.mode.run(play())


def test_a_look_on_a_silent_connection_does_not_keep_the_heart_from_its_renewals(
    stage: Stage, proxy: Proxy
) -> None:
    async def play() -> None:
        past = through(stage, proxy)
        waiter = stage.actor()
        stage.bench.url = past  # type: ignore[attr-defined]  # of the bench that `through` has seen
        holder = stage.actor()
        await holder.claim(holder.ask(ttl=30))
        assert not (await waiter.claim(waiter.ask(ttl=30))).granted
        engine = waiter.engine
        assert isinstance(engine, ZooKeeperEngine)
        (mine,) = engine._own.within(nodes.folder(engine._address.root, "x"))
        proxy.cut()
        engine._listener.worth_a_look(mine.session, mine.folder)
        began = stage.bench.now()
        assert EVERYONE in await engine.listen(began + 0.5)
        assert stage.bench.now() < began + 1.0
        proxy.heal()

    stage.mode.run(play())


def test_records_that_were_read_are_shown_though_the_time_comes_late(
    stage: Stage, proxy: Proxy
) -> None:
    """A holder whose lock was broken has a quarter of a second to find out by whom."""

    async def play() -> None:
        past = through(stage, proxy)
        reader = stage.actor()
        stage.bench.url = past  # type: ignore[attr-defined]  # of the bench that `through` has seen
        await stage.actor().engine.record("x", "an id", b"by whom", stage.bench.now() + SOON)
        soon = stage.bench.now() + SOON
        assert await reader.engine.records("x", soon) == [b"by whom"]
        proxy.hold_requests(is_write)
        assert await reader.engine.records("x", stage.bench.now() + 1.0) == [b"by whom"]
        assert proxy.held
        proxy.release_requests()

    stage.mode.run(play())


def test_an_answer_out_of_order_costs_the_connection_and_not_the_session(stage: Stage) -> None:
    async def play() -> None:
        client = stage.client()
        lease = await acquire(client.lock("x", ttl=30.0))
        (session,) = engine_of(client)._pool.all()
        # As if the server had left out the answer to an earlier request.
        session._client._pending.append((None, engine_of(client)._transport.reply(), 0))
        fresh = await acquire(client.lock("y", ttl=30.0), SOON)
        assert engine_of(client)._pool.all() == [session]
        await stage.mode.until(lambda: lease.state is State.HELD, "held again", SOON)
        await release(fresh)
        await release(lease)

    stage.mode.run(play())


def test_a_copy_that_waited_for_a_connection_until_its_id_was_dead_is_not_sent(
    stage: Stage, proxy: Proxy
) -> None:
    async def play() -> None:
        through(stage, proxy)
        actor = stage.actor()
        await actor.claim(actor.ask("other", ttl=30))  # there is a session
        proxy.cut()
        proxy.reset()
        (held,) = _mine([actor])
        await stage.mode.until(lambda: not held.session.usable, "the driver has noticed")
        ask = actor.ask(ttl=30)
        ask.not_after = stage.bench.now() + 0.5
        sending = stage.mode.start(actor.is_dead(ask))
        await stage.mode.sleep(1.0)
        proxy.heal()
        assert await sending.result(SOON)
        assert await actor.entries("x") == []

    stage.mode.run(play())


def test_nobody_is_let_in_while_the_token_base_is_read_again(stage: Stage, proxy: Proxy) -> None:
    """The first one to read it let the others pass, with tokens below those of the new base."""
    past = through(stage, proxy)
    bench = stage.bench
    assert isinstance(bench, ZooKeeperBench)
    bench.url += "/lifted"

    async def play() -> None:
        client = stage.client()
        await release(await acquire(client.lock("warm", ttl=8.0), 10))
        (session,) = engine_of(client)._pool.all()
        with lockfast.connect(f"{past}/lifted?token_base={10**15}") as other:
            other.lock("x", ttl=8.0).acquire(timeout=10.0).release()
        await stage.mode.until(lambda: session.checked != session.changes, "it is told")
        proxy.delay(0.0, replies=0.5)
        first = stage.mode.start(acquire(client.lock("a", ttl=8.0), 10))
        await stage.mode.sleep(0.2)
        second = stage.mode.start(acquire(client.lock("b", ttl=8.0), 10))
        for job in (first, second):
            with pytest.raises(EngineRefused, match="token_base"):
                await job.result()
        proxy.heal()

    stage.mode.run(play())


def resumed(server: ZooKeeper, client: lockfast.Client, **bounds: str) -> None:
    """Restart a server with other bounds, and wait until the client's only session is back."""
    engine = client._session.engine
    assert isinstance(engine, ZooKeeperEngine)
    (session,) = engine._pool.all()
    server.stop()
    server.configure(**bounds)
    server.start(30.0)
    wait_until(lambda: session.negotiated != session.asked, "the session is resumed", 30.0)


def test_a_claim_that_a_server_with_other_bounds_refuses_ends_no_other_lease() -> None:
    with (
        ZooKeeper() as server,
        lockfast.connect(server.url) as mine,
        lockfast.connect(server.url) as other,
    ):
        held = mine.lock("held", ttl=40).acquire()
        resumed(server, mine, minSessionTimeout="50000", maxSessionTimeout="60000")
        with pytest.raises(EngineRefused, match="50"):
            mine.lock("another", ttl=40).acquire(timeout=5)
        with pytest.raises(lockfast.NotAcquired):
            other.lock("held", ttl=50).acquire(timeout=1)
        held.ensure_held()


def test_a_session_that_is_resumed_for_a_shorter_time_is_not_believed_for_the_longer() -> None:
    with (
        ZooKeeper() as server,
        Proxy(server.host, server.port) as proxy,
        lockfast.connect(f"zookeeper://{proxy.address}") as mine,
        lockfast.connect(server.url) as other,
    ):
        held = mine.lock("held", ttl=40).acquire()
        resumed(server, mine, maxSessionTimeout="4000")
        proxy.cut()  # what is believed now is believed without a renewal
        taken = other.lock("held", ttl=4).acquire(timeout=30)
        with pytest.raises(LeaseLost):
            held.ensure_held()
        assert taken.token > held.token
        proxy.heal()


async def let_in(stage: Stage, actor: Actor, ask: Ask, within: float) -> None:
    """Claim, and wait until the claim is granted."""
    await actor.claim(ask)
    end = stage.bench.now() + within
    while not (await actor.renew_one(ask)).granted:
        assert stage.bench.now() < end, "another claim is still there"
        await stage.mode.sleep(0.1)


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_session_that_is_given_up_for_a_shorter_time_blocks_nobody_for_ever(mode: str) -> None:
    """kazoo kept its connection and went on with its pings, and so its nodes stayed, unless a
    client's heart resigned their claims. An engine alone has no heart.
    """
    with ZooKeeper() as server:
        stage = Stage(ZooKeeperBench(server), MODES[mode]())

        async def play() -> None:
            actor, other = stage.actor(), stage.actor()
            assert (await actor.claim(actor.ask(ttl=100))).granted
            (held,) = _mine([actor])
            server.stop()
            await stage.mode.until(lambda: not held.session.usable, "the connection is lost")
            server.configure(maxSessionTimeout="4000")
            server.start(30.0)
            await stage.mode.until(lambda: held.session.lost, "the session is given up", 30.0)
            await let_in(stage, other, other.ask(ttl=4.0 / stage.bench.unit), 4.0 + SOON)

        stage.mode.run(play())
        stage.mode.run(stage.clear())
        stage.mode.close()


def test_a_session_that_reconnects_while_its_client_closes_ends_all_the_same(
    stage: Stage, proxy: Proxy
) -> None:
    """Its claim is left to time out, which it never did while kazoo kept the connection."""

    async def play() -> None:
        past = through(stage, proxy)
        actor = stage.actor()
        stage.bench.url = past  # type: ignore[attr-defined]  # of the bench that `through` has seen
        other = stage.actor()
        ask = actor.ask(ttl=10)
        assert (await actor.claim(ask)).granted
        (held,) = _mine([actor])
        proxy.delay(0.0, replies=1.0)
        before = proxy.connections
        proxy.reset()
        await stage.mode.until(lambda: proxy.connections > before, "its handshake is under way")
        assert not held.session.usable
        await actor.engine.close()
        proxy.delay(0.0)
        await let_in(stage, other, other.ask(ttl=60), ask.shape.ttl + SOON)

    stage.mode.run(play())
