"""Replies of etcd get lost inside the engine: what comes of it, against the reference model."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

from lockfast.engines.etcd.messages import DELETE, TXN
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable, KindMismatch
from lockfast.port import SHARED, Ask, Kind, Standing
from lockfast.testing import MachineContract, Stage, StillMachine
from lockfast.testing.harness.mode import MODES
from lockfast.testing.harness.state_machine import SIZES, TTLS, Sizes
from lockfast.testing.harness.twins import NAMES, Claim
from lockfast.testing.harness.verbs import acquire, release
from tests.contract.benches import EtcdBench
from tests.contract.raw import raw
from tests.servers import EtcdCluster

COPIES = 4  # of a claim: more than are lost of it
LOSSES = ["reply", "reply", "request", ""]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


@pytest.fixture
def bench(cluster: EtcdCluster) -> EtcdBench:
    return EtcdBench(cluster)


def lose(engine: Any, *lost: str, methods: tuple[str, ...] = (TXN, DELETE)) -> Any:  # noqa: ANN401  # etcd's, not the port's
    """Lose what is named of the next changes: the "request", its "reply", or nothing."""
    call, left = engine._transport.call, list(lost)

    async def shaky(method: str, *args: Any, harmless: bool = False, **kwargs: Any) -> bytes:  # noqa: ANN401  # as call
        changes = method in methods and not harmless
        what = left.pop(0) if changes and left else ""
        if what == "request":
            raise EngineUnavailable("the request was lost", sent=True)
        said: bytes = await call(method, *args, harmless=harmless, **kwargs)
        if what == "reply":
            raise EngineUnavailable("the reply was lost", sent=True)
        return said

    engine._transport.call = shaky
    return call


class LossyMachine(StillMachine):
    """Besides: claims of any kind and capacity, with replies lost on the way in."""

    @rule(
        name=st.sampled_from(NAMES),
        sizes=st.sampled_from(SIZES),
        ttl=st.sampled_from(TTLS),
        queue=st.sampled_from([True, True, False]),
        lost=st.lists(st.sampled_from(LOSSES), min_size=1, max_size=COPIES - 1),
    )
    def claim_through_losses(
        self,
        name: str,
        sizes: Sizes,
        ttl: int,
        queue: bool,  # noqa: FBT001  # drawn by Hypothesis
        lost: list[str],
    ) -> None:
        """Send copies of a claim until one is answered: it is the same as one that was."""
        now = self.tick()
        kind, capacity, weight = sizes
        life = ttl * self.stretch
        ask = self.actor.ask(
            name, ttl=life, kind=kind, capacity=capacity, weight=weight, queue=queue
        )
        claim = Claim(ask, now + self.rewound + ask.shape.wait_ttl)
        self.claims.append(claim)
        engine: Any = self.actor.engine
        call = lose(engine, *lost)
        theirs: Standing | KindMismatch | None = None
        for _ in range(COPIES):
            try:
                theirs = self.ask(engine.claim(ask, self.actor.deadline))
                break
            except KindMismatch as error:
                theirs = error
                break
            except EngineUnavailable:
                continue
        engine._transport.call = call
        known = self.known(claim)
        ours = self.caught(lambda: self.model.claim(known, now))
        if self.spoiled:
            return
        if isinstance(ours, KindMismatch):
            assert isinstance(theirs, KindMismatch), theirs
            assert (theirs.asked, theirs.ruling) == (ours.asked, ours.ruling)
        else:
            assert not isinstance(theirs, KindMismatch), theirs
            self.compare(ask, theirs, ours)
        self.compare_pushes(ask)
        self.inspect(name)


class TestMachine(MachineContract):
    machine = LossyMachine
    examples = MachineContract.examples * 6 // 100


@pytest.mark.parametrize("mode", sorted(MODES))
@pytest.mark.parametrize(("method", "what"), [(TXN, "reply"), (DELETE, "request")])
def test_a_lost_reply_lets_no_semaphore_in_beside_a_lock(
    bench: EtcdBench, mode: str, method: str, what: str
) -> None:
    bench.wipe()
    stage = Stage(bench, MODES[mode]())

    async def play() -> None:
        holder, client = stage.client(), stage.client()
        lease = await acquire(holder.lock("x", ttl=8.0))
        # Its lease for waiters is there, so etcd would put the claim behind the lock.
        warm = await acquire(client.lock("warm", ttl=8.0))
        lose(raw(client), what, methods=(method,))
        with pytest.raises(KindMismatch):
            await acquire(client.semaphore("x", 5, ttl=8.0), 5)
        await release(warm)
        await release(lease)

    stage.mode.run(play())
    stage.mode.run(stage.clear())
    stage.mode.close()


@pytest.mark.parametrize("lost", [("reply",), ("request", "reply"), ("reply", "reply")])
@pytest.mark.parametrize(("kind", "other"), list(permutations(Kind, 2)))
def test_a_claim_of_another_kind_is_refused_after_lost_replies_and_writes_nothing(
    acts: Stage, cluster: EtcdCluster, kind: Kind, other: Kind, lost: tuple[str, ...]
) -> None:
    room = {Kind.LOCK: 1, Kind.READ_WRITE: SHARED, Kind.SEMAPHORE: 1}

    async def play() -> None:
        holder, actor = acts.actor(), acts.actor()
        held = holder.ask(kind=kind, capacity=room[kind], weight=room[kind])
        await holder.claim(held)
        for _ in range(2):  # the second one waits, and opens the lease for waiters
            await actor.claim(actor.ask("warm", ttl=30))
        revision = cluster.nodes[0].revision()
        for queue in (True, False):
            asked = actor.ask(ttl=30, kind=other, capacity=room[other], queue=queue)
            call = lose(actor.engine, *lost)
            for _ in lost:
                with pytest.raises(EngineUnavailable):
                    await actor.claim(asked)
            actor.engine._transport.call = call  # type: ignore[attr-defined]
            for _ in range(2):
                with pytest.raises(KindMismatch) as caught:
                    await actor.claim(asked)
                assert (caught.value.asked, caught.value.ruling) == (other.words, kind.words)
        assert cluster.nodes[0].revision() == revision
        assert [entry.id for entry in await actor.entries("x")] == [held.id]
        assert (await holder.renew_one(held)).behind == 0

    acts.mode.run(play())


def fail_to_open(engine: Any, error: EngineError) -> Any:  # noqa: ANN401  # etcd's, not the port's
    """Let every attempt to open a session fail. Return the function that did it before."""
    before = engine._sessions.open

    async def failing(*_: object) -> None:
        raise error

    engine._sessions.open = failing
    return before


@pytest.fixture(params=sorted(MODES))
def acts(bench: EtcdBench, request: pytest.FixtureRequest) -> Iterator[Stage]:
    bench.wipe()
    stage = Stage(bench, MODES[request.param]())
    yield stage
    stage.mode.run(stage.clear())
    stage.mode.close()


def test_a_holder_that_cannot_be_moved_to_its_lease_fails_no_other_renewal(acts: Stage) -> None:
    async def play() -> None:
        holder, actor = acts.actor(), acts.actor()
        engine: Any = actor.engine
        held, risen, healthy = holder.ask(ttl=60), actor.ask(ttl=60), actor.ask("y", ttl=30)
        await holder.claim(held)
        assert not (await actor.claim(risen)).granted
        assert (await actor.claim(healthy)).granted
        await holder.resign(held)
        before = fail_to_open(engine, EngineRefused("no lease"))
        failed, renewed = await actor.renew(risen, healthy)
        assert isinstance(failed, EngineRefused)
        assert isinstance(renewed, Standing)
        assert renewed.granted
        engine._sessions.open = before
        assert (await actor.renew_one(risen)).granted  # the next renewal moves it

    acts.mode.run(play())


@pytest.mark.parametrize(
    "error", [EngineRefused("no lease"), EngineUnavailable("no lease", sent=False)]
)
def test_a_claim_that_cannot_be_moved_to_its_lease_is_not_left_behind(
    acts: Stage, error: EngineError
) -> None:
    """The client resigns only what may have been sent, so a permit stayed taken by nobody."""

    async def play() -> None:
        actor = acts.actor()
        engine: Any = actor.engine
        other, asked = (actor.ask(ttl=60, capacity=2) for _ in range(2))
        await actor.claim(other)
        for name in ("z", "z"):  # the second one waits, and opens the lease for waiters
            await actor.claim(actor.ask(name, ttl=60))
        fail_to_open(engine, error)
        with pytest.raises(type(error)) as caught:
            await actor.claim(asked)
        if isinstance(caught.value, EngineUnavailable):
            assert caught.value.sent  # so the client resigns it
            assert await actor.resign(asked, doubt=True) == [True]
        assert [entry.id for entry in await actor.entries("x")] == [other.id]

    acts.mode.run(play())


def lose_moves(engine: Any) -> Any:  # noqa: ANN401  # etcd's, not the port's
    """Have etcd move claims to the lease of their ttl, and lose its reply. Return what did it."""
    promote = engine._own._promote

    async def unanswered(size: int, risen: Any, *rest: float) -> list[str]:  # noqa: ANN401  # as _promote
        before = [(mine, mine.session, mine.until) for mine in risen]
        await promote(size, risen, *rest)
        for mine, session, until in before:
            mine.session, mine.until = session, until
        raise EngineUnavailable("the reply was lost", sent=True)

    engine._own._promote = unanswered
    return promote


async def moved_without_an_answer(acts: Stage) -> tuple[Any, Ask, Ask]:
    """Return an actor, a claim that holds a permit, and one that was moved to the same lease by a
    request whose reply was lost. That lease ends before the waiters' lease, where it was.
    """
    actor = acts.actor()
    engine: Any = actor.engine
    other, asked = (actor.ask(ttl=11 / acts.bench.unit, capacity=2) for _ in range(2))
    await actor.claim(actor.ask("z", ttl=60))
    await actor.claim(other)
    await acts.mode.sleep(1.3)  # the lease has 9.7 s left, and its next keepalive is not yet due
    await actor.claim(actor.ask("z", ttl=60))  # it waits, and opens the lease for waiters: 10 s
    promote = lose_moves(engine)
    with pytest.raises(EngineUnavailable):
        await actor.claim(asked)
    engine._own._promote = promote
    return actor, other, asked


def test_a_claim_whose_move_to_its_lease_was_not_answered_is_believed_no_longer_than_that_lease(
    acts: Stage,
) -> None:
    async def play() -> None:
        actor, other, asked = await moved_without_an_answer(acts)
        lease = actor.engine._own.get(other.id).session
        asked_at = acts.bench.now()
        again = await actor.claim(asked)
        assert again.granted
        assert again.left <= lease.until - asked_at

    acts.mode.run(play())


def test_a_claim_whose_move_was_not_answered_ends_although_the_lease_it_came_from_is_gone(
    acts: Stage, cluster: EtcdCluster
) -> None:
    """Its key stayed on a lease that this client keeps alive for others, and blocked the lock."""

    async def play() -> None:
        actor, other, asked = await moved_without_an_answer(acts)
        lease = actor.engine._own.get(asked.id).session.lease
        cluster.leader().post("lease/revoke", ID=str(lease))
        await acts.mode.sleep(2.0)  # so that the renewal sends a keepalive
        _, gone = await actor.renew(other, asked)
        assert gone is None
        await actor.renew_one(other)  # which deletes what is over
        assert [entry.id for entry in await actor.entries("x")] == [other.id]

    acts.mode.run(play())


def test_a_renewal_after_a_move_that_was_not_answered_lasts_for_the_whole_ttl(acts: Stage) -> None:
    """Otherwise the next renewal, a third of the ttl later, comes when the lease is over."""

    async def play() -> None:
        holder, actor = acts.actor(), acts.actor()
        held, risen = holder.ask(ttl=60), actor.ask(ttl=60)
        await holder.claim(held)
        assert not (await actor.claim(risen)).granted
        await holder.resign(held)
        engine: Any = actor.engine
        promote = lose_moves(engine)
        assert isinstance((await actor.renew(risen))[0], EngineUnavailable)
        engine._own._promote = promote
        assert (await actor.renew_one(risen)).left > 50 * acts.bench.unit

    acts.mode.run(play())


@pytest.mark.parametrize("age", [0.0, 0.2])
def test_a_new_holder_whose_lease_etcd_has_dropped_gets_another_lease(
    acts: Stage, cluster: EtcdCluster, age: float
) -> None:
    """The lease is found gone by a keepalive, or, if it is too young for that, by the move."""

    async def play() -> None:
        holder, actor = acts.actor(), acts.actor()
        held, risen = holder.ask(ttl=60), actor.ask(ttl=60)
        await holder.claim(held)
        assert not (await actor.claim(risen)).granted
        await holder.resign(held)
        (session,) = [each for each in actor.engine._sessions if each.size > 10]  # type: ignore[attr-defined]
        cluster.leader().post("lease/revoke", ID=str(session.lease))
        session.anchor -= session.granted * age
        if not age:
            assert isinstance((await actor.renew(risen))[0], EngineUnavailable)
        assert (await actor.renew_one(risen)).left > 50 * acts.bench.unit

    acts.mode.run(play())


@pytest.mark.parametrize("ended", ["broken", "over"])
def test_a_claim_that_ends_while_it_is_moved_to_its_lease_is_not_granted(
    acts: Stage, ended: str
) -> None:
    """An operator breaks it, or its time is over and its own client deletes it."""

    async def play() -> None:
        actor, breaker = acts.actor(), acts.actor()
        engine: Any = actor.engine
        other, asked = (actor.ask(ttl=60, capacity=2) for _ in range(2))
        await actor.claim(other)
        for name in ("z", "z"):  # the second one waits, and opens the lease for waiters
            await actor.claim(actor.ask(name, ttl=60))
        outlasting = engine._sessions.outlasting

        async def slowly(*args: Any) -> Any:  # noqa: ANN401  # as outlasting
            if ended == "broken":
                await breaker.resign(asked)
            else:
                own = engine._own  # what `prune` does before it sends the deletion
                own._over[asked.id], own.soonest = own.get(asked.id).over(), 0.0
                own.drop(asked.id)
            return await outlasting(*args)

        engine._sessions.outlasting = slowly
        assert await actor.is_dead(asked)
        await actor.renew_one(other)  # which deletes what is over
        assert [entry.id for entry in await actor.entries("x")] == [other.id]

    acts.mode.run(play())
