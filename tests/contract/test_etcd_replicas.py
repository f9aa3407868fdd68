"""Claims that move between etcd engines, in the orders that refuted simpler rules (`spec/`).

The contract moves claims too, but cannot keep a request back, or see on which lease a claim is.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, NamedTuple

import pytest

from lockfast.claims.payload import LARGEST
from lockfast.engines.etcd.messages import GRANT, KEEP, TXN
from lockfast.engines.etcd.protobuf import number, text
from lockfast.engines.etcd.session import Kept
from lockfast.engines.etcd.snapshot import AT_ONCE
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import LONGEST_WAIT, TOMB_MARGIN, Ask, Standing, Wake, everyone_of
from lockfast.testing import Stage
from lockfast.testing.harness.roaming import again
from lockfast.testing.harness.stage import Actor
from tests.contract.benches import EtcdBench
from tests.contract.etcd_requests import Requests
from tests.servers import EtcdCluster
from tests.servers.etcd import encoded

LARGE, LARGER = b"x" * LARGEST, 30  # a payload, and how many of them no request to etcd can carry
Then = Callable[[], Coroutine[Any, Any, object]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster() as cluster:
        yield cluster


@pytest.fixture
def bench(cluster: EtcdCluster) -> EtcdBench:
    cluster.wipe()
    bench = EtcdBench(cluster)
    bench.unit = 1.0  # in which etcd counts
    return bench


class Stored(NamedTuple):
    """A key as etcd itself has it."""

    lease: int
    mod: int
    value: bytes


def stored(cluster: EtcdCluster, ask: Ask, where: str = "claim") -> Stored | None:
    """Read a claim, or its tombstone, without any code of lockfast's."""
    prefix = f"lockfast/{where}/"
    found = cluster.nodes[0].post("kv/range", key=encoded(prefix), range_end=encoded(prefix + "~"))
    for each in found.get("kvs", []):
        if base64.b64decode(each["key"]).endswith(ask.id.encode()):
            value = base64.b64decode(each.get("value", ""))
            return Stored(int(each["lease"]), int(each["mod_revision"]), value)
    return None


def first(actor: Actor, name: str = "x", **sizes: Any) -> Ask:  # noqa: ANN401  # as Actor.ask
    """Return a claim of a client's first connection."""
    ask = actor.ask(name, **sizes)
    ask.epoch = 1
    return ask


class Network:
    """Between an engine and etcd: acts when a transaction with some text in it is sent."""

    def __init__(self, actor: Actor, text: bytes) -> None:
        self._wire: Any = actor.engine._transport  # type: ignore[attr-defined]
        self._call = self._wire.call
        self._text = text
        self._then: Then | None = None
        self.kept: list[bytes] = []

    def before(self, then: Then) -> None:
        """Do something before the transaction is sent."""
        self._then = then
        self._wire.call = self._delayed

    def after(self, then: Then) -> None:
        """Do something before the reply is read."""
        self._then = then
        self._wire.call = self._followed

    def keep(self) -> None:
        """Keep the transaction, for `deliver`. Its sender gets no answer."""
        self._wire.call = self._swallowed

    def lose(self) -> None:
        """Lose the reply."""
        self._wire.call = self._unheard

    async def deliver(self) -> None:
        """Deliver what was kept."""
        (request,) = self.kept
        await self._call(TXN, request, self._wire.now() + 5.0)

    def _meant(self, method: str, request: bytes) -> bool:
        meant = method == TXN and self._text in request
        if meant:
            self._wire.call = self._call
        return meant

    async def _delayed(self, method: str, request: bytes, *rest: Any, **more: Any) -> bytes:  # noqa: ANN401  # as call
        if self._meant(method, request):
            assert self._then is not None
            await self._then()
        reply: bytes = await self._call(method, request, *rest, **more)
        return reply

    async def _followed(self, method: str, request: bytes, *rest: Any, **more: Any) -> bytes:  # noqa: ANN401  # as call
        meant = self._meant(method, request)
        reply: bytes = await self._call(method, request, *rest, **more)
        if meant:
            assert self._then is not None
            await self._then()
        return reply

    async def _swallowed(self, method: str, request: bytes, *rest: Any, **more: Any) -> bytes:  # noqa: ANN401  # as call
        if self._meant(method, request):
            self.kept.append(request)
            raise EngineUnavailable("no answer", sent=True)
        reply: bytes = await self._call(method, request, *rest, **more)
        return reply

    async def _unheard(self, method: str, request: bytes, *rest: Any, **more: Any) -> bytes:  # noqa: ANN401  # as call
        meant = self._meant(method, request)
        reply: bytes = await self._call(method, request, *rest, **more)
        if meant:
            raise EngineUnavailable("the reply was lost", sent=True)
        return reply


async def later(actor: Actor, seconds: float) -> None:
    """End what is over some seconds from now. Nothing waits: only this engine's clock moves."""
    engine: Any = actor.engine
    wire = engine._transport
    now = wire.now
    wire.now = lambda: now() + seconds
    try:
        await engine._places.prune(wire.now() + 5.0)
    finally:
        wire.now = now


# --- what changes nothing ------------------------------------------------------------------------


def test_a_late_copy_at_the_old_replica_does_not_delete_what_the_new_one_has_put(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """It once found the key on a lease that was not its own, and deleted it: `_found`."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=30)
        await old.claim(first(old, "warm"))
        assert (await new.claim(again(ask, None, 2))).granted
        before = stored(cluster, ask)
        late = await old.claim(ask)
        assert late.left == 0.0
        assert (await old.engine.claim_all([first(old, "y"), ask], old.deadline))[1] == late
        assert before is not None
        assert stored(cluster, ask) == before

    stage.mode.run(play())


def test_the_old_replica_does_not_end_what_the_new_one_has_adopted(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """Its own deadline passes, since nobody renews the claim there: `prune` once deleted it."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=2)
        moved = again(ask, await old.claim(ask), 2)
        await new.renew_one(moved)
        for _ in range(3):
            await stage.mode.sleep(1.0)
            await new.renew_one(moved)
        await old.claim(first(old, "y"))  # which ends what is over
        assert old.engine._own.get(ask.id) is None  # type: ignore[attr-defined]
        assert (await new.renew_one(moved)).granted
        assert stored(cluster, ask) is not None

    stage.mode.run(play())


def test_a_deletion_on_its_way_does_not_delete_what_has_come_back(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """The key is on a lease of the same replica again: only the mod revision is another."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=2)
        standing = await old.claim(ask)
        moved = again(ask, standing, 2)
        await new.renew_one(moved)
        await stage.mode.sleep(1.2)
        await new.renew_one(moved)
        await stage.mode.sleep(1.2)
        await new.renew_one(moved)
        network = Network(old, b"lockfast/claim/x/")
        network.keep()
        await old.claim(first(old, "y"))
        assert len(network.kept) == 1  # the deletion
        back = again(ask, standing, 3)
        assert (await old.renew_one(back)).granted
        await network.deliver()
        assert stored(cluster, ask) is not None
        assert (await old.renew_one(back)).granted

    stage.mode.run(play())


def test_a_late_renewal_does_not_adopt_the_claim_back(stage: Stage, cluster: EtcdCluster) -> None:
    async def play() -> None:
        old, new, other = stage.actor(), stage.actor(), stage.actor()
        ask = first(old, ttl=30)
        standing = await old.claim(ask)
        await new.renew_one(again(ask, standing, 3))
        before = stored(cluster, ask)
        for late in (again(ask, standing, 1), again(ask, standing, 2)):
            for actor in (old, new, other):
                assert (await actor.renew_one(late)).left == 0.0
        assert stored(cluster, ask) == before

    stage.mode.run(play())


def test_a_waiter_that_has_moved_is_not_promoted_by_the_old_replica(
    stage: Stage, cluster: EtcdCluster
) -> None:
    async def play() -> None:
        holder, old, new = stage.actor(), stage.actor(), stage.actor()
        held, ask = holder.ask(ttl=60), first(old, ttl=60)
        await holder.claim(held)
        standing = await old.claim(ask)
        moved = again(ask, standing, 2)
        await new.renew_one(moved)
        await holder.resign(held)
        assert (await new.renew_one(moved)).granted
        before = stored(cluster, ask)
        await old.renew_one(again(ask, standing, 1))
        own: Any = old.engine._own  # type: ignore[attr-defined]
        failed = await own.promote([own.get(ask.id)], stage.bench.now(), old.deadline)
        assert failed == {ask.id: None}  # also if it has read the queue before that
        assert stored(cluster, ask) == before

    stage.mode.run(play())


@pytest.mark.parametrize("granted", [True, False])
def test_a_put_that_comes_after_that_of_a_later_connection_changes_nothing(
    stage: Stage, cluster: EtcdCluster, *, granted: bool
) -> None:
    async def play() -> None:
        old, new, newest = stage.actor(), stage.actor(), stage.actor()
        if not granted:
            await old.claim(old.ask(ttl=60))
        ask = first(old, ttl=30)
        standing = await old.claim(ask)
        assert standing.granted is granted

        async def overtake() -> None:
            await newest.renew_one(again(ask, standing, 3))

        Network(new, b" ~2 ").before(overtake)
        assert (await new.renew_one(again(ask, standing, 2))).left == 0.0
        kept = stored(cluster, ask)
        assert kept is not None
        assert b" ~3 " in kept.value

    stage.mode.run(play())


@pytest.mark.parametrize("together", [False, True])
def test_a_late_copy_does_not_find_what_was_adopted_without_an_answer(
    stage: Stage, cluster: EtcdCluster, *, together: bool
) -> None:
    """The key names a later connection, and is on a lease of the same engine."""

    async def play() -> None:
        new, moved = await unanswered(stage, 30)
        before = stored(cluster, moved)
        late = again(moved, None, 1)
        if together:
            _, said = await new.engine.claim_all([first(new, "y"), late], new.deadline)
        else:
            said = await new.claim(late)
        assert isinstance(said, Standing)
        assert said.left == 0.0
        assert new.engine._own.get(late.id) is None  # type: ignore[attr-defined]
        assert stored(cluster, moved) == before
        assert (await new.renew_one(moved)).granted

    stage.mode.run(play())


def test_a_late_copy_that_is_put_anew_is_not_the_claim_that_was_broken(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """Somebody else may have held the lock in between."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=30)
        moved = again(ask, None, 2)
        granted = await new.claim(moved)
        key = f"lockfast/claim/x/{ask.id}"
        cluster.nodes[0].post("kv/deleterange", key=encoded(key))
        assert (await old.claim(ask)).ticket > granted.ticket
        assert await new.renew(again(moved, granted, 2)) == [None]

    stage.mode.run(play())


def test_the_old_replica_shows_a_claim_that_is_over_there_and_was_adopted(stage: Stage) -> None:
    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=30)
        moved = again(ask, await old.claim(ask), 2)
        await new.renew_one(moved)
        own: Any = old.engine._own  # type: ignore[attr-defined]
        mine = own.get(ask.id)
        mine.until = stage.bench.now() - 1.0
        assert [entry.left > 0.0 for entry in await old.entries("x")] == [True]
        await later(old, 0.0)
        own._over[ask.id] = mine.over()  # as if the deletion had failed
        assert [entry.left > 0.0 for entry in await old.entries("x")] == [True]

    stage.mode.run(play())


# --- what an adoption is worth -------------------------------------------------------------------


def test_the_lease_is_kept_alive_after_the_request_however_fresh_it_is(stage: Stage) -> None:
    """The client counts on a renewal that it has sent after that keepalive."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=30)
        standing = await old.claim(ask)
        await new.claim(first(new, "y", ttl=30))  # opens a lease, just now
        with Requests(new) as requests:
            adopted = await new.renew_one(again(ask, standing, 2))
        assert requests.sent == [KEEP, TXN, TXN]
        assert adopted.left == pytest.approx(30.0)
        with Requests(new) as requests:
            await new.renew_one(again(ask, standing, 2))
        assert requests.sent == [TXN]  # it is ours now: a renewal as any other

    stage.mode.run(play())


def test_a_keepalive_that_is_not_proven_is_sent_again_before_the_claim_is_put(
    stage: Stage,
) -> None:
    """A leader that was replaced may have answered it, and its successor does not know of it."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=30)
        standing = await old.claim(ask)
        await new.claim(first(new, "y", ttl=30))
        sessions: Any = new.engine._sessions  # type: ignore[attr-defined]
        beat = sessions.beat

        async def deposed(*args: Any) -> Kept:  # noqa: ANN401  # as beat
            sessions.beat = beat
            kept: Kept = await beat(*args)
            return kept._replace(term=kept.term + 1)

        sessions.beat = deposed
        with Requests(new) as requests:
            assert (await new.renew_one(again(ask, standing, 2))).granted
        assert requests.sent == [KEEP, TXN, KEEP, TXN, TXN]

    stage.mode.run(play())


def test_the_first_request_of_a_connection_adopts_also_at_the_same_replica(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """Otherwise what an earlier connection has left at another replica would adopt it back."""

    async def play() -> None:
        old, other = stage.actor(), stage.actor()
        ask = first(old, ttl=30, payload=b"{}")
        standing = await old.claim(ask)
        await old.renew_one(again(ask, standing, 3))
        kept = stored(cluster, ask)
        assert kept is not None
        assert kept.value.endswith(b" ~3 {}")
        assert (await other.renew_one(again(ask, standing, 2))).left == 0.0
        assert (await old.claim(again(ask, None, 4))).granted
        kept = stored(cluster, ask)
        assert kept is not None
        assert kept.value.endswith(b" ~4 {}")

    stage.mode.run(play())


def test_a_waiter_that_is_granted_by_now_is_put_on_the_lease_of_its_ttl(stage: Stage) -> None:
    """An earlier reply, which is on its way, may have told the client so."""

    async def play() -> None:
        holder, old, new = stage.actor(), stage.actor(), stage.actor()
        held, ask = holder.ask(ttl=60), first(old, ttl=60)
        await holder.claim(held)
        standing = await old.claim(ask)
        await holder.resign(held)
        adopted = await new.renew_one(again(ask, standing, 2))
        assert adopted.granted
        assert adopted.left == pytest.approx(60.0)

    stage.mode.run(play())


def test_a_claim_is_not_adopted_with_other_sizes(stage: Stage, cluster: EtcdCluster) -> None:
    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=30, capacity=3)
        standing = await old.claim(ask)
        before = stored(cluster, ask)
        for sizes in ({"ttl": 60.0, "capacity": 3}, {"ttl": 30.0, "capacity": 4}):
            other = new.ask(**sizes)  # type: ignore[arg-type]  # by name
            other.id, other.epoch, other.ticket = ask.id, 2, standing.ticket
            (said,) = await new.renew(other)
            assert isinstance(said, EngineRefused)
        another = again(ask, standing._replace(ticket=standing.ticket - 1), 2)
        assert await new.renew(another) == [None]  # another claim, with the same id
        assert stored(cluster, ask) == before

    stage.mode.run(play())


def test_copies_that_move_together_are_adopted_together(stage: Stage) -> None:
    """The replies of a replica that has died are lost, and its clients send all claims again."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        asks = [first(old, f"name {number}", ttl=30) for number in range(20)]
        asks += [first(old, "short", ttl=20), first(old, "new", ttl=30)]
        before = await old.engine.claim_all(asks[:-1], old.deadline)
        for ttl in (20, 30):
            await new.claim(first(new, f"warm {ttl}", ttl=ttl))
        with Requests(new) as requests:
            moved = [again(ask, None, 2) for ask in asks]
            after = await new.engine.claim_all(moved, new.deadline)
        assert requests.sent == [TXN, TXN, KEEP, KEEP, TXN, TXN, TXN]
        for one, other in zip(before, after[:-1], strict=True):
            assert isinstance(one, Standing)
            assert isinstance(other, Standing)
            assert (other.ticket, other.granted) == (one.ticket, True)
            assert other.left == pytest.approx(one.left, abs=0.1)
        assert await new.resign(*moved) == [True] * len(moved)

    stage.mode.run(play())


def test_more_claims_than_one_transaction_carries_move_together(stage: Stage) -> None:
    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        asks = [first(old, f"name {number}", ttl=30) for number in range(AT_ONCE + 20)]
        said = await old.engine.claim_all(asks, old.deadline)
        await new.claim(first(new, "warm", ttl=30))
        moved = []
        for ask, standing in zip(asks, said, strict=True):
            assert isinstance(standing, Standing)
            moved.append(again(ask, standing, 2))
        with Requests(new) as requests:
            after = await new.renew(*moved)
        assert requests.sent == [KEEP, *[TXN] * 4]
        for standing, ask in zip(after, moved, strict=True):
            assert isinstance(standing, Standing)
            assert (standing.ticket, standing.granted) == (ask.ticket, True)
        with Requests(new) as requests:
            assert None not in await new.renew(*moved)
        assert requests.sent == [TXN, TXN]

    stage.mode.run(play())


def test_claims_that_are_too_large_for_one_transaction_move_together(stage: Stage) -> None:
    """etcd rejects a request above 1.5 MB: the claims of all clients in it once failed."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        asks = [first(old, f"name {n}", ttl=30, payload=LARGE) for n in range(LARGER)]
        moved = [again(ask, await old.claim(ask), 2) for ask in asks]
        after = await new.renew(*moved)
        assert [getattr(each, "ticket", each) for each in after] == [ask.ticket for ask in moved]
        assert await new.resign(*moved) == [True] * LARGER

    stage.mode.run(play())


# --- adoptions that are not answered --------------------------------------------------------------


async def unanswered(stage: Stage, ttl: float) -> tuple[Actor, Ask]:
    """Return a replica that has put a claim on its lease, and got no answer."""
    old, new = stage.actor(), stage.actor()
    ask = first(old, ttl=ttl)
    moved = again(ask, await old.claim(ask), 2)
    Network(new, b" ~2 ").lose()
    (said,) = await new.renew(moved)
    assert isinstance(said, EngineUnavailable)
    return new, moved


def test_a_lease_is_not_revoked_on_which_a_put_may_have_laid_a_claim(
    stage: Stage, cluster: EtcdCluster
) -> None:
    async def play() -> None:
        new, moved = await unanswered(stage, 30)
        await new.engine.close()
        assert stored(cluster, moved) is not None
        third = stage.actor()
        assert (await third.renew_one(again(moved, None, 3))).granted

    stage.mode.run(play())


def test_an_adoption_without_an_answer_is_made_again(stage: Stage, cluster: EtcdCluster) -> None:
    async def play() -> None:
        new, moved = await unanswered(stage, 30)
        before = stored(cluster, moved)
        assert (await new.renew_one(moved)).granted
        assert before is not None
        assert (await new.resign(moved)) == [True]

    stage.mode.run(play())


def test_an_adoption_without_an_answer_ends_if_nobody_renews_the_claim(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """It is on a lease that this engine keeps alive for others."""

    async def play() -> None:
        new, moved = await unanswered(stage, 2)
        kept = first(new, "y", ttl=2)
        await new.claim(kept)
        for _ in range(3):
            await stage.mode.sleep(1.0)
            await new.renew_one(kept)
        assert stored(cluster, kept) is not None
        assert stored(cluster, moved) is None

    stage.mode.run(play())


def test_an_adoption_that_arrives_when_its_engine_has_ended_it_does_nothing(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """Nothing would end it any more: it would stand as long as its engine lives."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=2)
        standing = await old.claim(ask)
        network = Network(new, b" ~2 ")
        network.keep()
        (said,) = await new.renew(again(ask, standing, 2))
        assert isinstance(said, EngineUnavailable)
        own: Any = new.engine._own  # type: ignore[attr-defined]
        assert own._unsure
        for _ in range(3):
            await stage.mode.sleep(1.0)
            await old.renew_one(ask)
        await new.claim(first(new, "y"))  # which ends what is over
        assert not own._unsure
        await network.deliver()
        kept = stored(cluster, ask)
        assert kept is not None
        assert b" ~1 " in kept.value

    stage.mode.run(play())


@pytest.mark.parametrize("arrives", [False, True])
def test_it_ends_also_at_the_replica_that_had_the_claim_before(
    stage: Stage, cluster: EtcdCluster, *, arrives: bool
) -> None:
    """The client has only connected again. What is known of its earlier connection says nothing."""

    async def play() -> None:
        actor = stage.actor()
        ask = first(actor, ttl=30)
        standing = await actor.claim(ask)
        network = Network(actor, b" ~2 ")
        if arrives:
            network.lose()
        else:
            network.keep()
        (said,) = await actor.renew(again(ask, standing, 2))
        assert isinstance(said, EngineUnavailable)
        await later(actor, 0.0)  # as when the time of another claim is over
        await later(actor, 29.0)
        assert stored(cluster, ask) is not None
        await later(actor, 31.0)
        assert stored(cluster, ask) is None

    stage.mode.run(play())


def test_it_ends_also_after_what_the_earlier_connection_had(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """A late renewal of that connection has found its claim gone."""

    async def play() -> None:
        actor = stage.actor()
        ask = first(actor, ttl=30)
        standing = await actor.claim(ask)
        Network(actor, b" ~2 ").lose()
        await actor.renew(again(ask, standing, 2))
        actor.engine._places.gone([ask.id])  # type: ignore[attr-defined]
        await later(actor, 1.0)
        assert stored(cluster, ask) is not None
        await later(actor, 31.0)
        assert stored(cluster, ask) is None

    stage.mode.run(play())


def test_a_claim_that_waits_for_the_end_of_an_adoption_does_not_keep_the_heart_busy(
    stage: Stage,
) -> None:
    async def play() -> None:
        actor = stage.actor()
        ask = first(actor, ttl=30)
        standing = await actor.claim(ask)
        own: Any = actor.engine._own  # type: ignore[attr-defined]
        own.get(ask.id).until -= 29.0
        Network(actor, b" ~2 ").lose()
        await actor.renew(again(ask, standing, 2))
        await later(actor, 10.0)
        assert own.get(ask.id) is not None
        assert own.soonest > stage.bench.now() + 20.0

    stage.mode.run(play())


def test_adoptions_for_two_connections_without_an_answer_end_both(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """Only one of them is applied, and nobody knows which."""

    async def play() -> None:
        for name, order, applied in (("a", (2, 3), 2), ("b", (2, 3), 3), ("c", (3, 2), 3)):
            old, new = stage.actor(), stage.actor()
            ask = first(old, name, ttl=30)
            standing = await old.claim(ask)
            networks = {}
            for epoch in order:
                networks[epoch] = Network(new, b" ~%d " % epoch)
                networks[epoch].keep()
                (said,) = await new.renew(again(ask, standing, epoch))
                assert isinstance(said, EngineUnavailable)
            await networks[applied].deliver()
            kept = stored(cluster, ask)
            assert kept is not None
            assert b" ~%d " % applied in kept.value
            await later(new, 31.0)
            assert stored(cluster, ask) is None, name

    stage.mode.run(play())


def test_an_adoption_whose_second_copy_was_not_sent_ends_as_well(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """The error of the second copy once said that nothing was sent."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=30)
        moved = again(ask, await old.claim(ask), 2)
        wire: Any = new.engine._transport  # type: ignore[attr-defined]
        call, copies = wire._call, []

        async def failing(method: str, request: bytes, deadline: float) -> bytes:
            if method != TXN or b" ~2 " not in request:
                reply: bytes = await call(method, request, deadline)
                return reply
            copies.append(request)
            if len(copies) == 1:
                await call(method, request, deadline)
                raise EngineUnavailable("the reply was lost", sent=True)
            raise EngineUnavailable("no member was reached", sent=False)

        wire._call = failing
        (said,) = await new.engine.renew([moved], stage.bench.now() + 0.5)
        assert isinstance(said, EngineUnavailable)
        assert said.sent
        wire._call = call
        await new.engine.close()
        assert stored(cluster, ask) is not None
        await later(new, 31.0)
        assert stored(cluster, ask) is None

    stage.mode.run(play())


def test_an_adoption_that_is_cancelled_ends_as_well(stage: Stage, cluster: EtcdCluster) -> None:
    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=30)
        moved = again(ask, await old.claim(ask), 2)

        async def cancel() -> None:
            raise asyncio.CancelledError

        Network(new, b" ~2 ").after(cancel)
        with pytest.raises(asyncio.CancelledError):
            await new.renew(moved)
        await new.engine.close()
        assert stored(cluster, ask) is not None
        await later(new, 31.0)
        assert stored(cluster, ask) is None

    stage.mode.run(play())


def test_an_adoption_with_a_reply_that_cannot_be_read_ends_as_well(
    stage: Stage, cluster: EtcdCluster
) -> None:
    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=30)
        moved = again(ask, await old.claim(ask), 2)
        wire: Any = new.engine._transport  # type: ignore[attr-defined]
        call = wire.call

        async def spoilt(method: str, request: bytes, *rest: Any, **more: Any) -> bytes:  # noqa: ANN401  # as call
            reply: bytes = await call(method, request, *rest, **more)
            if method == TXN and b" ~2 " in request:
                wire.call = call
                return number(2, 1) + text(3, text(4, b"\xff"))
            return reply

        wire.call = spoilt
        (said,) = await new.renew(moved)
        assert isinstance(said, EngineUnavailable)
        assert stored(cluster, ask) is not None
        await later(new, 31.0)
        assert stored(cluster, ask) is None

    stage.mode.run(play())


def test_a_claim_that_has_ended_before_it_is_put_is_not_put(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """It ends while a put on another lease is under way. Its own put would find the gate open."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        asks = [first(old, "a", ttl=50), first(old, "b", ttl=30)]
        moved = [again(ask, await old.claim(ask), 2) for ask in asks]
        Network(new, b" ~2 ").keep()
        (said,) = await new.renew(moved[1])
        assert isinstance(said, EngineUnavailable)

        async def end() -> None:
            await later(new, 40.0)

        Network(new, b" ~2 ").before(end)
        one, other = await new.renew(*moved)
        assert isinstance(one, Standing)
        assert other is None
        kept = stored(cluster, asks[1])
        assert kept is not None
        assert b" ~1 " in kept.value  # the old engine ends it

    stage.mode.run(play())


def test_a_claim_that_has_ended_while_it_was_found_is_not_remembered(stage: Stage) -> None:
    """Nothing is there that would have to be ended again."""

    async def play() -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=30)
        key = b"lockfast/claim/x/"

        async def end() -> None:
            await later(actor, 31.0)

        async def read() -> None:
            Network(actor, key).after(end)

        Network(actor, key).lose()
        with pytest.raises(EngineUnavailable):
            await actor.claim(ask)
        Network(actor, key).after(read)
        assert await actor.is_dead(ask)
        assert len(actor.engine._own) == 0  # type: ignore[attr-defined]

    stage.mode.run(play())


def test_a_claim_that_is_resigned_while_it_is_adopted_is_not_remembered(
    stage: Stage, cluster: EtcdCluster
) -> None:
    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = first(old, ttl=30)
        moved = again(ask, await old.claim(ask), 2)

        async def resign() -> None:
            assert await new.resign(moved, doubt=True) == [True]

        Network(new, b" ~2 ").after(resign)
        assert await new.renew(moved) == [None]
        assert stored(cluster, ask) is None
        assert len(new.engine._own) == 0  # type: ignore[attr-defined]

    stage.mode.run(play())


# --- tombstones ----------------------------------------------------------------------------------


def test_a_tombstone_stays_for_as_long_as_a_paused_replicas_lease_may_live(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """A claim may lie in its buffer. If its session lives when it goes on, it puts the claim."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        asks = [first(old, f"name {ttl}", ttl=ttl) for ttl in (2, 90)]
        for ask in asks:
            with Requests(new) as requests:
                assert await new.resign(again(ask, None, 2), doubt=True) == [False]
            assert requests.sent == [GRANT, TXN]
            tomb = stored(cluster, ask, "tomb")
            assert tomb is not None
            left = cluster.leader().post("lease/timetolive", ID=str(tomb.lease))
            assert int(left["TTL"]) > ask.shape.ttl + LONGEST_WAIT + TOMB_MARGIN
            assert await old.is_dead(ask)
        with Requests(new) as requests:
            await new.resign(again(asks[1], None, 2), doubt=True)
        assert requests.sent == [TXN]  # a lease serves many
        await new.engine.close()
        assert await old.is_dead(asks[1])

    stage.mode.run(play())


@pytest.mark.parametrize("queue", [True, False])
@pytest.mark.parametrize("capacity", [1, 3])
@pytest.mark.parametrize("taken", [True, False])
def test_a_claim_with_a_tombstone_is_dead_whatever_its_queue_is(
    stage: Stage, *, queue: bool, capacity: int, taken: bool
) -> None:
    """Also in a call with others, which end in the same number of requests."""

    async def play() -> None:
        holder, old, new = stage.actor(), stage.actor(), stage.actor()
        names = ("alone", "together")
        if taken:
            for name in names:
                await holder.claim(holder.ask(name, ttl=30, capacity=capacity))
        alone, dead = (first(old, n, ttl=30, capacity=capacity, queue=queue) for n in names)
        others = [first(old, name, ttl=30) for name in ("y", "z")]
        moved = [again(ask, None, 2) for ask in (alone, dead)]
        assert await new.resign(*moved, doubt=True) == [False, False]
        assert await old.is_dead(alone)
        said = await old.engine.claim_all([others[0], dead, others[1]], old.deadline)
        assert said[1] is None or said[1].ticket == 0  # type: ignore[union-attr]
        assert all(each is not None and each.granted for each in said[::2])  # type: ignore[union-attr]
        for name in names:
            assert len(await holder.entries(name)) == taken

    stage.mode.run(play())


def test_a_tombstone_whose_lease_was_revoked_is_left_on_another(
    stage: Stage, cluster: EtcdCluster
) -> None:
    async def play() -> None:
        new = stage.actor()
        one, other = (again(first(new, ttl=30), None, 2) for _ in range(2))
        await new.resign(one, doubt=True)
        tomb = stored(cluster, one, "tomb")
        assert tomb is not None
        cluster.leader().post("lease/revoke", ID=str(tomb.lease))
        with pytest.raises(EngineUnavailable) as caught:
            await new.resign(other, doubt=True)
        assert not caught.value.sent
        assert await new.resign(other, doubt=True) == [False]
        assert stored(cluster, other, "tomb") is not None

    stage.mode.run(play())


# --- hear ----------------------------------------------------------------------------------------


def test_wakes_arrive_and_leases_are_kept_while_clients_connect_without_a_pause(
    stage: Stage,
) -> None:
    async def play() -> None:
        replica, other = stage.actor(), stage.actor()
        await replica.attend()
        held, waiter = other.ask(ttl=60), replica.ask(ttl=60)
        await other.claim(held)
        await replica.claim(waiter)
        await replica.wakes(0)  # the watch has begun
        await other.resign(held)
        for session in replica.engine._sessions:  # type: ignore[attr-defined]
            session.anchor -= session.granted / 2.0
        with Requests(replica) as requests:
            heard: list[Wake] = []
            for number_ in range(500):
                client = f"{number_:022x}"
                replica.engine.hear(client, on=True)
                wakes = await replica.engine.listen(stage.bench.now() + 1.0)
                assert everyone_of(client) in wakes
                heard += [wake for wake in wakes if wake.id == waiter.id]
                if heard and requests.keepalives:
                    break
                await stage.mode.sleep(0.01)
            assert heard
            assert requests.keepalives

    stage.mode.run(play())


def test_the_wakes_of_a_client_that_has_left_are_not_returned(stage: Stage) -> None:
    async def play() -> None:
        replica, other = stage.actor(), stage.actor()
        clients = [Actor(replica.engine, stage.bench) for _ in range(2)]
        holders = [other.ask(f"name {number}", ttl=60) for number in range(2)]
        waiters = []
        for client, holder in zip(clients, holders, strict=True):
            await client.attend()
            await other.claim(holder)
            waiters.append(client.ask(holder.shape.name, ttl=60))
            await client.claim(waiters[-1])
        replica.engine.hear(clients[0].client, on=False)
        heard: list[Wake] = []
        for place in range(2):  # in this order
            await other.resign(holders[place])
            while place and waiters[1].id not in {wake.id for wake in heard}:
                heard += await replica.wakes(1)
        assert waiters[0].id not in {wake.id for wake in heard}

    stage.mode.run(play())


# --- direct clients ------------------------------------------------------------------------------


def test_a_direct_client_writes_neither_epochs_nor_tombstones(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """So an earlier version reads its claims. And a pair takes two requests, as before."""

    async def play() -> None:
        actor = stage.actor()
        await actor.claim(actor.ask("warm", ttl=30))
        ask = actor.ask(ttl=30, payload=b"{}")
        with Requests(actor) as requests:
            await actor.claim(ask)
            kept = stored(cluster, ask)
            await actor.resign(ask)
        assert len(requests.sent) == 2
        assert kept is not None
        assert kept.value == b"v1 1 1 1 30000 {}"
        await actor.resign(ask, doubt=True)
        assert stored(cluster, ask, "tomb") is None

    stage.mode.run(play())


@pytest.mark.parametrize("payload", [b"", b"{}", b"~", b"~7 ", b"~7 x", b"~~"])
@pytest.mark.parametrize("epoch", [0, 1, 2**53])
def test_any_payload_is_read_as_it_was_written(stage: Stage, payload: bytes, epoch: int) -> None:
    async def play() -> None:
        actor = stage.actor()
        ask = actor.ask(ttl=30, payload=payload)
        ask.epoch = epoch
        await actor.claim(ask)
        assert [entry.payload for entry in await actor.entries("x")] == [payload]

    stage.mode.run(play())
