"""etcd in trouble: members killed and paused, leaders replaced, history and logins gone."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

import pytest

import lockfast
from lockfast.core.validity import State
from lockfast.engines.etcd.messages import TXN
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.testing import MODES, CrowdContract, Stage, WakeContract
from lockfast.testing.harness.verbs import AnyClient, acquire, queue, release, try_acquire
from tests.contract.benches import EtcdBench
from tests.contract.raw import raw
from tests.servers import Etcd, EtcdCluster, Proxy, free_port, wait_until

QUICK = 2.0  # seconds: less than a waiter's beat on a ttl of 30 s, which is 3.3


@pytest.fixture(scope="module")
def shared() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: EtcdCluster) -> Iterator[EtcdCluster]:
    """Give the cluster, and bring every member back afterwards."""
    yield shared
    for node in shared.nodes:
        if node.alive:
            node.resume()
        node.start()
    wait_until(lambda: all(node.is_ready() for node in shared.nodes), "all members serve")


@pytest.fixture
def bench(cluster: EtcdCluster) -> EtcdBench:
    return EtcdBench(cluster)


def run(stage: Stage, play: Coroutine[Any, Any, None]) -> None:
    stage.mode.run(play)


def asked(client: AnyClient, cluster: EtcdCluster) -> Etcd:
    """Tell the member that a client asks at present."""
    address = raw(client)._transport.address
    return next(node for node in cluster.nodes if node.address == address)


def told(what: str, began: float) -> None:
    print(f"\n  {what}: {time.monotonic() - began:.2f} s")  # noqa: T201  # shown by pytest -s


def test_the_leader_is_killed_and_locks_go_on(cluster: EtcdCluster, stage: Stage) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        lock = other.lock("y", ttl=8.0)
        held = await acquire(client.lock("x", ttl=8.0))
        before = await acquire(lock)
        began = time.monotonic()
        cluster.leader().kill()
        await release(before)
        told("leader killed, released after", began)
        after = await acquire(lock, 10)
        told("leader killed, acquired again after", began)
        assert time.monotonic() - began < 6
        assert after.token > before.token
        assert await try_acquire(stage.client().lock("x", ttl=8.0)) is None
        until = held.valid_until
        await stage.mode.until(lambda: held.valid_until > until, "it is renewed")
        assert held.state is State.HELD
        await release(held)
        await release(after)

    run(stage, play())


@pytest.mark.parametrize("member", range(3))
def test_any_member_may_be_down(cluster: EtcdCluster, stage: Stage, member: int) -> None:
    async def play() -> None:
        client = stage.client()
        before = await acquire(client.lock("x", ttl=8.0))
        cluster.nodes[member].kill()
        began = time.monotonic()
        assert await try_acquire(stage.client().lock("x", ttl=8.0)) is None
        await release(before)
        after = await acquire(stage.client().lock("x", ttl=8.0), 10)
        told(f"member {member} killed, handed over after", began)
        assert time.monotonic() - began < 6
        assert after.token > before.token
        await release(after)

    run(stage, play())


def test_a_member_that_stands_still_is_passed_over(cluster: EtcdCluster, stage: Stage) -> None:
    async def play() -> None:
        client = stage.client()
        await release(await acquire(client.lock("x", ttl=30.0)))
        asked(client, cluster).pause()
        began = time.monotonic()
        lease = await acquire(client.lock("x", ttl=30.0), 10)
        told("member paused, acquired after", began)
        assert time.monotonic() - began < 6
        await release(lease)

    run(stage, play())


def test_a_member_behind_a_slow_network_can_be_reached(cluster: EtcdCluster) -> None:
    node = cluster.nodes[0]
    with Proxy(node.host, node.port) as proxy:
        proxy.delay(0.0, replies=0.2)
        with lockfast.connect(f"etcd://{proxy.address}") as client:
            assert client.lock("nobody's").queue() == []


def test_a_watch_goes_on_after_a_leader_change(cluster: EtcdCluster, stage: Stage) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=30.0))
        waiting = stage.mode.start(acquire(other.lock("x", ttl=30.0), 20))
        await waited(stage, client)
        cluster.leader().kill()
        cluster.leader()
        await release(lease)
        began = time.monotonic()
        after = await waiting.result()
        told("leader changed, woken after", began)
        assert time.monotonic() - began < QUICK
        assert after.token > lease.token
        await release(after)

    run(stage, play())


def test_a_watch_goes_on_after_a_compaction(cluster: EtcdCluster, stage: Stage) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=30.0))
        waiting = stage.mode.start(acquire(other.lock("x", ttl=30.0), 20))
        await waited(stage, client)
        for _ in range(3):  # what the watch would have to begin with is forgotten
            await release(await acquire(client.lock("elsewhere", ttl=30.0)))
        cluster.leader().compact()
        asked(other, cluster).kill()
        await stage.mode.sleep(0.5)
        await release(lease)
        began = time.monotonic()
        after = await waiting.result()
        told("compacted and cut, woken after", began)
        assert time.monotonic() - began < QUICK
        await release(after)

    run(stage, play())


async def waited(stage: Stage, client: AnyClient) -> None:
    """Wait until two claims are on x."""
    actor = stage.actor()
    end = time.monotonic() + 10
    while len(await actor.entries("x")) != 2:
        assert time.monotonic() < end
        await stage.mode.sleep(0.01)
    del client


def test_what_was_not_sent_is_told_apart_from_what_was(cluster: EtcdCluster, stage: Stage) -> None:
    async def play() -> None:
        nowhere = Stage(EtcdBench(cluster), stage.mode)
        nowhere.bench.url = f"etcd://127.0.0.1:{free_port()}"  # type: ignore[attr-defined]  # a UrlBench
        unheard = nowhere.actor()
        with pytest.raises(EngineUnavailable) as caught:
            await unheard.claim(unheard.ask())
        assert not caught.value.sent
        nowhere.bench.url = f"etcd://{cluster.nodes[0].address}"  # type: ignore[attr-defined]  # see above
        actor = nowhere.actor()
        await actor.claim(actor.ask("warm"))
        cluster.nodes[0].pause()
        with pytest.raises(EngineUnavailable) as caught:
            await actor.engine.claim(actor.ask(), stage.bench.now() + 0.3)
        assert caught.value.sent
        cluster.nodes[0].resume()
        await nowhere.clear()

    run(stage, play())


SECRET = "p@ss/w:rd"  # noqa: S105  # of servers that live for a minute


@pytest.fixture(scope="module")
def locked_up() -> Iterator[EtcdBench]:
    options = ["--auth-token-ttl", "1", "--bcrypt-cost", "4"]
    with EtcdCluster(tls=True, password=SECRET, options=options) as cluster:
        yield EtcdBench(cluster)


class TestTlsAndPassword(WakeContract, CrowdContract):
    """A part of the contract, where logins are over after a second without a request."""

    @pytest.fixture
    def bench(self, locked_up: EtcdBench) -> EtcdBench:
        return locked_up


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_login_that_is_over_is_made_anew(locked_up: EtcdBench, mode: str) -> None:
    stage = Stage(locked_up, MODES[mode]())

    async def play() -> None:
        client = stage.client()
        lease = await acquire(client.lock("x", ttl=30.0))
        await stage.mode.sleep(2.5)
        await release(lease)
        assert (await guaranteed(client)).startswith("etcd 3")

    async def guaranteed(client: AnyClient) -> str:
        found = await client._session.engine.guarantees(stage.bench.now() + 5)
        return found.engine

    stage.mode.run(play())
    stage.mode.run(stage.clear())
    stage.mode.close()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_waiter_is_woken_at_once_also_after_a_login_was_made_anew(
    locked_up: EtcdBench, mode: str
) -> None:
    locked_up.wipe()
    stage = Stage(locked_up, MODES[mode]())

    async def hand_over(client: AnyClient, other: AnyClient) -> float:
        lease = await acquire(client.lock("x", ttl=30.0))
        waiting = stage.mode.start(acquire(other.lock("x", ttl=30.0), 20))
        await waited(stage, client)
        await stage.mode.sleep(0.5)
        await release(lease)
        began = time.monotonic()
        await release(await waiting.result())
        return time.monotonic() - began

    async def play() -> None:
        client, other = stage.client(), stage.client()
        await hand_over(client, other)  # from here on there is a stream
        await stage.mode.sleep(2.5)  # and its token is over
        engine = raw(other)
        call, calls = engine._transport.call, []

        async def count(method: str, *args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401  # as call
            calls.append(method)
            said: bytes = await call(method, *args, **kwargs)
            return said

        engine._transport.call = count
        took = [await hand_over(client, other) for _ in range(2)]
        assert max(took) < 1.0, took  # a waiter's beat is 3.3 s
        assert len(calls) < 30, calls

    stage.mode.run(play())
    stage.mode.run(stage.clear())
    stage.mode.close()


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_wrong_password_is_refused_and_not_waited_for(locked_up: EtcdBench, mode: str) -> None:
    right, locked_up.url = locked_up.url, locked_up.url.replace("app:", "app:not")
    stage = Stage(locked_up, MODES[mode]())

    async def play() -> None:
        with pytest.raises(EngineRefused, match="authentication failed"):
            await acquire(stage.client().lock("x"), 5)

    stage.mode.run(play())
    stage.mode.run(stage.clear())
    stage.mode.close()
    locked_up.url = right


def test_a_claim_that_is_being_ended_is_not_renewed_meanwhile(stage: Stage) -> None:
    """Its client ends what nobody renewed. If the heart comes just then, a renewal that is read
    before the deletion would tell a holder that it has what is gone a moment later.
    """

    async def play() -> None:
        actor = stage.actor()
        engine: Any = actor.engine
        late, other = actor.ask("x", ttl=0.2), actor.ask("y", ttl=30.0)
        await actor.claim(late)
        await stage.mode.until(lambda: engine._now() >= engine._own.soonest, "it is over")
        call = engine._transport.call
        met: list[object] = []

        async def slowly(method: str, *args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401  # as call
            if method == TXN and not met:  # it deletes what is over before it claims
                met.append("the deletion")
                met.append(await actor.renew(late))
            said: bytes = await call(method, *args, **kwargs)
            return said

        engine._transport.call = slowly
        await actor.claim(other)
        assert met == ["the deletion", [None]]
        assert await actor.entries("x") == []
        assert await actor.is_dead(late)

    run(stage, play())


def test_a_claim_that_could_not_be_given_up_in_time_does_not_stay_for_ever(stage: Stage) -> None:
    """Nobody was told of its grant, and the heart was so late that it did not even try to resign
    it. It is on a lease that the client keeps: it would stand there as long as that lives.
    """

    async def play() -> None:
        client, other = stage.client(), stage.client()
        at_work = await acquire(client.lock("y", ttl=2.0))  # its lease is kept alive
        engine = raw(client)
        call, resign = engine._transport.call, engine.resign

        async def unheard(method: str, *args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401  # as call
            said: bytes = await call(method, *args, **kwargs)
            if method == TXN:
                raise EngineUnavailable("the reply was lost", sent=True)
            return said

        async def late(asks: Sequence[object], *_: object, **__: object) -> list[bool]:
            raise EngineUnavailable(f"no time was left for {len(asks)}", sent=False)

        engine._transport.call, engine.resign = unheard, late
        with pytest.raises(EngineUnavailable):
            await acquire(client.lock("x", ttl=2.0), 0.3)
        engine._transport.call = call
        await stage.mode.until(lambda: len(client._session.table) == 1, "the heart gives up")
        engine.resign = resign
        await release(await acquire(other.lock("x", ttl=2.0), 6))
        await release(at_work)

    run(stage, play())


def test_an_inspection_bears_that_one_of_its_own_claims_ends_meanwhile(stage: Stage) -> None:
    async def play() -> None:
        client, other = stage.client(), stage.client()
        lease = await acquire(client.lock("x", ttl=5.0))
        waiting = stage.mode.start(acquire(other.lock("x", ttl=5.0), 10))
        engine = raw(client)
        ask = engine._transport.call_all

        async def meanwhile(*args: Any) -> list[bytes]:  # noqa: ANN401  # handed on
            engine._own.drop(lease.id)  # as a release does, in another thread or task
            told: list[bytes] = await ask(*args)
            return told

        engine._transport.call_all = meanwhile
        assert (await queue(client.lock("x")))[0].id == lease.id
        engine._transport.call_all = ask
        await release(lease)
        await release(await waiting.result())

    run(stage, play())
