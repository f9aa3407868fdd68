"""Renewals on etcd: what they cost, and that they notice all that has happened to a claim."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.claims.payload import LARGEST
from lockfast.engines.etcd.messages import KEEP, TXN
from lockfast.errors import EngineUnavailable
from lockfast.port import SHARED, Ask, Standing
from lockfast.testing import Stage
from lockfast.testing.harness.mode import MODES
from lockfast.testing.harness.stage import Actor
from tests.contract.benches import EtcdBench
from tests.contract.etcd_requests import Requests
from tests.servers import EtcdCluster, wait_until
from tests.servers.etcd import encoded

NUMBER = 30
LEAN = 100  # bytes of the replies to a renewal, however many locks it is for


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


@pytest.fixture
def bench(cluster: EtcdCluster) -> EtcdBench:
    cluster.wipe()
    return EtcdBench(cluster)


async def held(actor: Actor) -> list[Ask]:
    asks = [actor.ask(f"name {number}", ttl=60) for number in range(NUMBER)]
    await actor.engine.claim_all(asks, actor.deadline)
    age(actor)
    return asks


def age(actor: Actor) -> None:
    """Make the next renewal send a keepalive."""
    for session in actor.engine._sessions:  # type: ignore[attr-defined]
        session.anchor -= session.granted / 5.0


def test_locks_without_waiters_take_a_keepalive_and_a_transaction_that_reads_nothing(
    stage: Stage,
) -> None:
    async def play() -> None:
        actor = stage.actor()
        asks = await held(actor)
        for _ in range(2):
            age(actor)
            with Requests(actor) as requests:
                said = await actor.renew(*asks)
            assert requests.sent == [KEEP, TXN]
            assert requests.received < LEAN
            for each in said:
                assert isinstance(each, Standing)
                assert (each.granted, each.ahead, each.behind) == (True, 0, 0)
                assert each.floor == each.ticket
                assert each.left > 29

    stage.mode.run(play())


def test_the_first_waiter_is_noticed_by_the_next_renewal_and_so_is_its_leaving(
    stage: Stage,
) -> None:
    async def play() -> None:
        actor, other = stage.actor(), stage.actor()
        asks = await held(actor)
        waiter = other.ask(asks[3].shape.name, ttl=60)
        await other.claim(waiter)
        said = await actor.renew(*asks)
        assert [each.behind for each in said if isinstance(each, Standing)] == [
            int(ask is asks[3]) for ask in asks
        ]
        with Requests(actor) as requests:  # from now on, this one queue is read
            await actor.renew(*asks)
        assert requests.sent == [TXN]
        await other.resign(waiter)
        assert (await actor.renew_one(asks[3])).behind == 0
        with Requests(actor) as requests:
            await actor.renew(*asks)
        assert requests.sent == [TXN]
        assert requests.received < LEAN

    stage.mode.run(play())


@pytest.mark.parametrize("by", ["break", "hand", "hand-over"])
def test_a_claim_that_was_removed_is_gone_at_the_next_renewal_and_the_others_are_renewed(
    stage: Stage, cluster: EtcdCluster, by: str
) -> None:
    async def play() -> None:
        actor, other = stage.actor(), stage.actor()
        asks = await held(actor)
        name = asks[3].shape.name
        if by == "hand":
            key = encoded(f"lockfast/claim/{name}/{asks[3].id}")
            cluster.leader().post("kv/deleterange", key=key)
        else:
            await other.resign(asks[3], doubt=True)
        if by == "hand-over":
            await other.claim(other.ask(name, ttl=60))
        said = await actor.renew(*asks)
        assert [each is None for each in said] == [ask is asks[3] for ask in asks]
        assert all(each.left > 29 for each in said if isinstance(each, Standing))

    stage.mode.run(play())


def test_data_that_was_lost_while_the_lease_lives_is_noticed(
    stage: Stage, cluster: EtcdCluster
) -> None:
    async def play() -> None:
        actor = stage.actor()
        asks = await held(actor)
        cluster.wipe()
        assert await actor.renew(*asks) == [None] * NUMBER

    stage.mode.run(play())


def test_readers_that_join_and_leave_are_counted(stage: Stage) -> None:
    async def play() -> None:
        actor, other = stage.actor(), stage.actor()
        first, second = (each.ask(ttl=60, capacity=SHARED) for each in (actor, other))
        await actor.claim(first)
        await other.claim(second)
        assert (await actor.renew_one(first)).behind == 0
        assert (await other.renew_one(second)).ahead == 1
        await actor.resign(first)
        alone = await other.renew_one(second)
        assert (alone.ahead, alone.floor) == (0, alone.ticket)

    stage.mode.run(play())


@pytest.mark.parametrize("mode", sorted(MODES))
def test_a_renewal_asks_a_majority_although_it_reads_nothing(mode: str) -> None:
    """etcd answers a transaction without operations from one member. That proves no keepalive."""
    with EtcdCluster(election=5000) as cluster:  # so the leader stays one for long enough
        bench = EtcdBench(cluster)
        leader = cluster.leader()
        bench.url = f"etcd://{leader.address}"
        stage = Stage(bench, MODES[mode]())

        async def play() -> None:
            actor = stage.actor()
            asks = await held(actor)
            assert all(isinstance(each, Standing) for each in await actor.renew(*asks))
            for node in cluster.followers():
                node.pause()
            age(actor)
            with Requests(actor) as requests, pytest.raises(EngineUnavailable):
                await actor.engine.renew(asks, stage.bench.now() + 1.0)
            assert requests.sent[:2] == [KEEP, TXN]  # it answers the keepalive, alone
            assert leader.leads()

        stage.mode.run(play())
        for node in cluster.nodes:
            node.resume()
        wait_until(lambda: all(node.is_ready() for node in cluster.nodes), "all members serve")
        stage.mode.run(stage.clear())
        stage.mode.close()


def test_new_holders_that_are_too_large_for_one_transaction_are_moved_to_their_lease(
    stage: Stage,
) -> None:
    """etcd rejects a request above 1.5 MB. So all of them once lost their leases."""

    async def play() -> None:
        holder, waiter = stage.actor(), stage.actor()
        names = [f"name {number}" for number in range(30)]
        held = [holder.ask(name, ttl=60) for name in names]
        waiting = [waiter.ask(name, ttl=60, payload=b"x" * LARGEST) for name in names]
        for ask, other in zip(held, waiting, strict=True):
            assert (await holder.claim(ask)).granted
            assert not (await waiter.claim(other)).granted
        await holder.resign(*held)
        for said in await waiter.renew(*waiting):
            assert isinstance(said, Standing), said
            assert said.granted

    stage.mode.run(play())
