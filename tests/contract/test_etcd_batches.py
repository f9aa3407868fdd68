"""Claims that share a call to etcd: how many requests they take, and what a failed one costs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from lockfast import aio
from lockfast.claims.payload import LARGEST
from lockfast.engines.etcd.claim_batch import ClaimBatch
from lockfast.engines.etcd.messages import TXN
from lockfast.errors import EngineRefused, EngineUnavailable, KindMismatch
from lockfast.port import Ask, Kind, Standing
from lockfast.testing import Stage
from lockfast.testing.harness.stage import Actor
from tests.contract.benches import EtcdBench
from tests.contract.etcd_requests import Requests, waiters_lease
from tests.contract.raw import raw
from tests.servers import EtcdCluster

NUMBER = 20


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


@pytest.fixture
def bench(cluster: EtcdCluster) -> EtcdBench:
    cluster.wipe()
    return EtcdBench(cluster)


async def warmed(stage: Stage) -> Actor:
    """Return a client that has a lease for holders, and none for waiters."""
    actor = stage.actor()
    await actor.claim(actor.ask("warm", ttl=60))
    return actor


def asks_of(actor: Actor, **sizes: Any) -> list[Ask]:  # noqa: ANN401  # as Actor.ask
    return [actor.ask(f"name {number}", ttl=60, **sizes) for number in range(NUMBER)]


async def made(actor: Actor, asks: list[Ask]) -> list[Any]:
    return await actor.engine.claim_all(asks, actor.deadline)


def test_claims_on_free_names_are_one_request(stage: Stage) -> None:
    async def play() -> None:
        actor = await warmed(stage)
        asks = asks_of(actor)
        with Requests(actor) as requests:
            said = await made(actor, asks)
        assert requests.sent == [TXN]
        assert all(each.granted and each.left > 19 for each in said)
        for ask, each in zip(asks, said, strict=True):
            (entry,) = await actor.entries(ask.shape.name)
            assert (entry.id, entry.ticket) == (ask.id, each.ticket)

    stage.mode.run(play())


def test_claims_that_were_answered_before_are_looked_at_together(stage: Stage) -> None:
    async def play() -> None:
        actor = await warmed(stage)
        asks = asks_of(actor)
        before = await made(actor, asks)
        with Requests(actor) as requests:
            again = await made(actor, asks)
        assert requests.sent == [TXN]
        assert [each.ticket for each in again] == [each.ticket for each in before]

    stage.mode.run(play())


@pytest.mark.parametrize("waits", ["", "a lease for waiters"])
def test_claims_on_names_that_are_taken_are_not_made_one_by_one(stage: Stage, waits: str) -> None:
    async def play() -> None:
        holder, actor = stage.actor(), await warmed(stage)
        if waits:
            await waiters_lease(actor)
        held = asks_of(holder)
        await made(holder, held)
        asks = asks_of(actor)
        with Requests(actor) as requests:
            said = await made(actor, asks)
        # A claim, a read, a claim, if there is no lease for waiters: it takes two more to open.
        assert len(requests.of_claims) == (1 if waits else 3)
        assert len(requests.sent) == (1 if waits else 5)
        assert [(each.granted, each.ahead) for each in said] == [(False, 1)] * NUMBER
        assert [each.blocker.id for each in said] == [ask.id for ask in held]

    stage.mode.run(play())


def test_permits_without_waiting_take_two_requests(stage: Stage) -> None:
    async def play() -> None:
        holder, actor = stage.actor(), await warmed(stage)
        await made(holder, asks_of(holder, capacity=2))
        asks = asks_of(actor, capacity=2, queue=False)
        with Requests(actor) as requests:
            said = await made(actor, asks)
        assert requests.sent == [TXN] * 2
        assert all(each.granted and each.ahead == 1 and each.left > 19 for each in said)
        with Requests(actor) as requests:
            full = await made(actor, asks_of(actor, capacity=2, queue=False))
        assert requests.sent == [TXN]
        assert [(each.ticket, each.granted, each.ahead) for each in full] == [
            (0, False, 2)
        ] * NUMBER

    stage.mode.run(play())


@pytest.mark.parametrize("queue", [True, False])
def test_claims_that_are_too_large_for_one_transaction_are_made(
    stage: Stage, *, queue: bool
) -> None:
    """etcd rejects a request above 1.5 MB, so `lock_all` once failed in a task that holds much."""

    async def play() -> None:
        actor = stage.actor()
        await waiters_lease(actor)
        large = b"x" * LARGEST
        asks = [actor.ask(f"name {n}", ttl=60, queue=queue, payload=large) for n in range(30)]
        for said in await actor.engine.claim_all(asks, actor.deadline):
            assert isinstance(said, Standing), said
            assert said.granted

    stage.mode.run(play())


def test_permits_that_are_granted_at_once_move_to_their_lease_together(stage: Stage) -> None:
    async def play() -> None:
        holder, actor = stage.actor(), await warmed(stage)
        await waiters_lease(actor)
        await made(holder, asks_of(holder, capacity=2))
        with Requests(actor) as requests:
            said = await made(actor, asks_of(actor, capacity=2))
        assert requests.sent == [TXN] * 2  # put beside the holders, and moved
        assert all(each.granted and each.left > 19 for each in said)

    stage.mode.run(play())


def test_a_gate_that_has_moved_costs_one_more_request_for_all(stage: Stage) -> None:
    async def play() -> None:
        actor = await warmed(stage)
        for session in actor.engine._sessions:  # type: ignore[attr-defined]
            session.gate -= 1  # as it was before another thread has moved it
        with Requests(actor) as requests:
            said = await made(actor, asks_of(actor))
        assert requests.sent == [TXN] * 2
        assert all(each.granted for each in said)

    stage.mode.run(play())


def test_each_claim_of_a_call_gets_its_own_answer(stage: Stage) -> None:
    async def play() -> None:
        holder, actor = stage.actor(), await warmed(stage)
        for name in ("kind", "taken", "refused"):
            await holder.claim(holder.ask(name, ttl=60))
        asks = [
            actor.ask("free", ttl=60),
            actor.ask("kind", ttl=60, kind=Kind.SEMAPHORE, capacity=3),
            actor.ask("taken", ttl=60),
            actor.ask("refused", ttl=60, queue=False),
            actor.ask("late", ttl=60, late=1),
            actor.ask("short", ttl=8),  # on another lease
        ]
        free, kind, taken, refused, late, short = await made(actor, asks)
        assert free.granted
        assert short.granted
        assert isinstance(kind, KindMismatch)
        assert (taken.granted, taken.ahead) == (False, 1)
        assert (refused.ticket, refused.granted) == (0, False)
        assert late is None
        assert await actor.entries("late") == []

    stage.mode.run(play())


# --- requests and replies that are lost, and refusals --------------------------------------------


async def three(stage: Stage) -> tuple[Actor, list[Ask]]:
    """Return a client, and claims that are answered in the first, second and third request: one on
    a free name, a permit, and one that has to wait, for which it has no lease yet.
    """
    holder, actor = stage.actor(), await warmed(stage)
    await holder.claim(holder.ask("permit", ttl=60, capacity=2))
    await holder.claim(holder.ask("taken", ttl=60))
    asks = [
        actor.ask("free", ttl=60),
        actor.ask("permit", ttl=60, capacity=2, queue=False),
        actor.ask("taken", ttl=60),
    ]
    return actor, asks


def test_the_first_reply_is_lost_and_every_claim_is_in_doubt(stage: Stage) -> None:
    async def play() -> None:
        actor, asks = await three(stage)
        with Requests(actor, lost=1), pytest.raises(EngineUnavailable) as caught:
            await made(actor, asks)
        assert caught.value.sent
        free, permit, taken = await made(actor, asks)
        assert free.granted
        assert permit.granted
        assert not taken.granted
        assert [entry.id for entry in await actor.entries("free")] == [asks[0].id]

    stage.mode.run(play())


@pytest.mark.parametrize("lost", [2, 3])
def test_a_later_reply_is_lost_and_claims_that_were_answered_keep_their_answers(
    stage: Stage, lost: int
) -> None:
    """The second request reads the queue of the claim that waits, the third sends what is left."""

    async def play() -> None:
        actor, asks = await three(stage)
        with Requests(actor, lost=lost):
            free, permit, taken = await made(actor, asks)
        assert free.granted
        assert isinstance(taken, EngineUnavailable)
        assert taken.sent
        if lost == 2:
            assert permit.granted
        else:
            assert isinstance(permit, EngineUnavailable)
            assert permit is not taken
        # Each is resigned by its own id, and the next copy of the others finds what was put.
        await actor.resign(asks[2], doubt=True)
        assert await actor.is_dead(asks[2])
        assert asks[2].id not in [entry.id for entry in await actor.entries("taken")]
        assert (await actor.claim(asks[1])).granted
        assert (await actor.renew_one(asks[0])).granted
        assert len(await actor.entries("permit")) == 2

    stage.mode.run(play())


def test_a_later_round_that_etcd_refuses_is_sent_again_one_by_one(stage: Stage) -> None:
    async def play() -> None:
        actor, asks = await three(stage)
        with Requests(actor, lost=3, error=EngineRefused("too large")):
            free, permit, taken = await made(actor, asks)
        assert free.granted
        assert permit.granted
        assert (taken.granted, taken.ahead) == (False, 1)

    stage.mode.run(play())


def test_a_reply_that_cannot_be_read_leaves_every_claim_in_doubt(stage: Stage) -> None:
    async def play() -> None:
        actor, asks = await three(stage)
        with Requests(actor, spoilt=1), pytest.raises(EngineUnavailable) as caught:
            await made(actor, asks)
        assert caught.value.sent
        await actor.resign(*asks, doubt=True)  # which moves the gate, as the copies count
        for ask in asks:
            assert ask.id not in [entry.id for entry in await actor.entries(ask.shape.name)]

    stage.mode.run(play())


def test_claims_whose_reply_cannot_be_read_end_by_themselves(stage: Stage) -> None:
    """Their caller may be unable to resign them, and nobody renews them."""

    async def play() -> None:
        actor = await warmed(stage)
        asks = asks_of(actor)
        for ask in asks:
            ask.not_after = stage.bench.now() + 1.0
        with Requests(actor, spoilt=1), pytest.raises(EngineUnavailable):
            await made(actor, asks)
        assert len(await actor.entries(asks[0].shape.name)) == 1
        await stage.mode.sleep(1.1)
        await actor.claim(actor.ask("next", ttl=60))
        assert await actor.every("name") == []

    stage.mode.run(play())


def test_a_claim_that_was_given_up_is_dead_although_the_others_fail(stage: Stage) -> None:
    async def play() -> None:
        actor, asks = await three(stage)
        engine: Any = actor.engine
        opening = engine._sessions.open

        async def slowly(*args: Any) -> Any:  # noqa: ANN401  # as open
            await actor.resign(asks[2], doubt=True)
            return await opening(*args)

        engine._sessions.open = slowly
        with Requests(actor, spoilt=3):
            free, permit, taken = await made(actor, asks)
        assert free.granted
        assert isinstance(permit, EngineUnavailable)
        assert taken is None

    stage.mode.run(play())


def test_a_claim_that_its_caller_repeats_meanwhile_keeps_the_time_of_its_renewals(
    stage: Stage,
) -> None:
    """A signal handler interrupts the thread that sends a call, and its requests are repeated by
    their own threads. When the handler returns, what the call says is out of date. Its own client
    once deleted the claim of a holder, and another client was granted the lock.
    """

    async def play() -> None:
        holder, actor = stage.actor(), await warmed(stage)
        held = holder.ask("taken", ttl=60)
        await holder.claim(held)
        asks = [actor.ask("free", ttl=60), actor.ask("taken", ttl=4)]
        engine: Any = actor.engine
        call = engine._transport.call

        async def slowly(method: str, request: bytes, *args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401  # as call
            if b"free" not in request:  # it opens a session
                reply: bytes = await call(method, request, *args, **kwargs)
                return reply
            engine._transport.call = call
            assert not (await actor.claim(asks[1])).granted
            await holder.resign(held)
            for _ in range(7):
                await stage.mode.sleep(0.4)
                assert (await actor.renew_one(asks[1])).granted
            late: bytes = await call(method, request, *args, **kwargs)
            return late

        engine._transport.call = slowly
        await made(actor, asks)
        await actor.claim(actor.ask("next", ttl=60))  # deletes what is over
        assert [entry.id for entry in await actor.entries("taken")] == [asks[1].id]
        assert (await actor.renew_one(asks[1])).granted

    stage.mode.run(play())


def test_a_claim_that_is_resigned_before_its_reply_is_read_is_not_kept(stage: Stage) -> None:
    async def play() -> None:
        actor = await warmed(stage)
        engine: Any = actor.engine
        asks = asks_of(actor)
        call = engine._transport.call

        async def slowly(*args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401  # as call
            engine._transport.call = call
            reply: bytes = await call(*args, **kwargs)
            await actor.resign(asks[3], doubt=True)
            return reply

        engine._transport.call = slowly
        said = await made(actor, asks)
        assert [each is None for each in said] == [ask is asks[3] for ask in asks]
        assert engine._own.get(asks[3].id) is None

    stage.mode.run(play())


# --- claims that are given up before they are sent ------------------------------------------------


@pytest.mark.parametrize("alone", ["", "alone"])
def test_a_claim_that_is_resigned_before_it_is_sent_is_never_put(stage: Stage, alone: str) -> None:
    """It waits for a session, or for its turn, while its caller gives up."""

    async def play() -> None:
        actor = stage.actor()
        engine: Any = actor.engine
        asks = asks_of(actor)
        gone = asks[3]
        opening = engine._sessions.open

        async def slowly(*args: Any) -> Any:  # noqa: ANN401  # as open
            await actor.resign(gone, doubt=True)
            return await opening(*args)

        engine._sessions.open = slowly
        if alone:
            assert await actor.is_dead(gone)
        else:
            said = await made(actor, asks)
            assert [each is None for each in said] == [ask is gone for ask in asks]
            assert all(isinstance(each, Standing) for each in said if each is not None)
        assert await actor.entries(gone.shape.name) == []

    stage.mode.run(play())


@pytest.mark.parametrize("alone", ["", "alone"])
def test_a_claim_that_is_resigned_while_it_waits_for_its_turn_is_never_granted(
    stage: Stage, alone: str
) -> None:
    async def play() -> None:
        actor = await warmed(stage)
        engine: Any = actor.engine
        asks = asks_of(actor)
        gone = asks[3]
        turn = engine._transport.in_turn

        async def slowly(work: Any, deadline: float) -> Any:  # noqa: ANN401  # as in_turn
            await actor.resign(gone, doubt=True)
            return await turn(work, deadline)

        engine._transport.in_turn = slowly
        if alone:
            assert await actor.is_dead(gone)
        else:
            said = await made(actor, asks)
            assert [each is None for each in said] == [ask is gone for ask in asks]
        assert await actor.entries(gone.shape.name) == []

    stage.mode.run(play())


def test_a_claim_that_is_resigned_while_its_request_is_written_is_not_sent(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate may have moved before the request was written, so it would not stop the copy."""

    async def play() -> None:
        actor = await warmed(stage)
        engine: Any = actor.engine
        asks = asks_of(actor)
        gone = asks[3]
        write = ClaimBatch._write

        def slowly(batch: ClaimBatch, some: Sequence[Ask]) -> bytes:
            written = write(batch, some)
            engine._own.bury([gone])  # what another thread does that resigns it
            return written

        monkeypatch.setattr(ClaimBatch, "_write", slowly)
        said = await made(actor, asks)
        assert [each is None for each in said] == [ask is gone for ask in asks]
        assert await actor.entries(gone.shape.name) == []

    stage.mode.run(play())


def test_a_claim_that_is_too_late_when_its_session_is_open_is_not_sent(stage: Stage) -> None:
    async def play() -> None:
        actor = stage.actor()
        engine: Any = actor.engine
        asks = asks_of(actor)
        asks[3].not_after = stage.bench.now() + 0.2
        opening = engine._sessions.open

        async def slowly(*args: Any) -> Any:  # noqa: ANN401  # as open
            await stage.mode.sleep(0.3)
            return await opening(*args)

        engine._sessions.open = slowly
        said = await made(actor, asks)
        assert [each is None for each in said] == [ask is asks[3] for ask in asks]
        assert await actor.entries(asks[3].shape.name) == []

    stage.mode.run(play())


def test_tasks_that_are_cancelled_fail_no_other_task_of_their_call(cluster: EtcdCluster) -> None:
    """Each of them in turn is the one that sends the call for the others."""
    cluster.wipe()

    async def play() -> None:
        async with aio.connect(cluster.url) as client:
            await (await client.lock("first", ttl=30.0).acquire()).release()
            wire = raw(client)._transport
            batched = raw(client) is not client._session.engine
            call, most = wire.call, [0]

            async def slowly(method: str, request: bytes, *args: Any, **kwargs: Any) -> bytes:  # noqa: ANN401  # as call
                most[0] = max(most[0], len(set(re.findall(rb"claim/task \d+/", request))))
                await asyncio.sleep(0.05)
                reply: bytes = await call(method, request, *args, **kwargs)
                return reply

            wire.call = slowly

            async def acquired(lock: aio.AsyncLock) -> aio.AsyncLease:
                return await lock.acquire(timeout=10)

            locks = [client.lock(f"task {number}", ttl=30.0) for number in range(NUMBER)]
            for delay in (0.0, 0.02, 0.06, 0.1):
                most[0] = 0
                tasks = [asyncio.create_task(acquired(lock)) for lock in locks]
                await asyncio.sleep(delay)
                for task in tasks[::3]:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
                others = [each for place, each in enumerate(ended) if place % 3]
                assert all(isinstance(each, aio.AsyncLease) for each in others), others
                for lease in ended:
                    if isinstance(lease, aio.AsyncLease):
                        await lease.release()
                assert most[0] > 1 or not batched  # LOCKFAST_TEST_BATCH may say so
                for lock in locks:  # those that were cancelled hold nothing
                    await (await lock.acquire(timeout=10)).release()

    asyncio.run(play())
