"""Claims in etcd that another version of lockfast has stored: refused in words, and left as is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lockfast.errors import EngineRefused
from lockfast.port import SHARED, Kind, Standing
from lockfast.testing import MODES, Stage
from lockfast.testing.harness.stage import Actor
from lockfast.testing.harness.verbs import acquire, release
from tests.contract.benches import EtcdBench
from tests.servers import EtcdCluster
from tests.servers.etcd import encoded

STORED = {
    "0, a lock": (0, b'1 1 60000 {"host": "h"}'),
    "0, a semaphore": (0, b"5 2 60000 "),
    "0, a writer": (0, b"%d %d 60000 " % (SHARED, SHARED)),
    "2, as now": (2, b"v2 1 1 1 60000 "),
    "2, unknown": (2, b"v2 \xffwho knows"),
}
SIZES = [
    (Kind.LOCK, 1),
    (Kind.READ_WRITE, SHARED),
    (Kind.SEMAPHORE, 1),
    (Kind.SEMAPHORE, 5),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EtcdCluster]:
    with EtcdCluster(1) as cluster:
        yield cluster


@pytest.fixture(params=sorted(MODES))
def stage(cluster: EtcdCluster, request: pytest.FixtureRequest) -> Iterator[Stage]:
    stage = Stage(EtcdBench(cluster), MODES[request.param]())
    yield stage
    stage.mode.run(stage.clear())
    stage.mode.close()


@pytest.fixture(params=list(STORED))
def kept(request: pytest.FixtureRequest) -> tuple[int, bytes]:
    """A format, and a claim that is stored in it."""
    return STORED[request.param]


class Theirs:
    """The claim of a client of another version on "x"."""

    def __init__(self, cluster: EtcdCluster, stored: bytes) -> None:
        """Store it."""
        self._node = cluster.nodes[0]
        self._key = encoded("lockfast/claim/x/" + "7" * 32)
        self._node.post("kv/put", key=self._key, value=encoded(stored))
        (self._before,) = self._node.post("kv/range", key=self._key)["kvs"]

    def is_untouched(self) -> bool:
        """Tell whether it is as it was stored: the same bytes, and not written again."""
        return bool(self._node.post("kv/range", key=self._key).get("kvs") == [self._before])

    def end(self) -> None:
        """Remove it."""
        self._node.post("kv/deleterange", key=self._key)


def keys_on(cluster: EtcdCluster) -> list[str]:
    """List the keys of the claims on "x"."""
    found = cluster.nodes[0].post(
        "kv/range", key=encoded("lockfast/claim/x/"), range_end=encoded("lockfast/claim/x0")
    )
    return [each["key"] for each in found.get("kvs", [])]


def refusal(number: int) -> str:
    return f"'x' is stored in format {number}, and this version of lockfast reads format 1"


async def warmed(actor: Actor) -> Actor:
    """Have the client open its leases, so that a claim that has to wait is one transaction."""
    for ttl in (5, 60):
        asks = [actor.ask("warm", ttl=ttl) for _ in range(2)]
        for ask in asks:
            await actor.claim(ask)
        await actor.resign(*asks)
    return actor


@pytest.mark.parametrize("warm", [True, False])
def test_a_claim_of_another_format_refuses_all_and_stays_as_it_is(
    stage: Stage,
    cluster: EtcdCluster,
    kept: tuple[int, bytes],
    warm: bool,  # noqa: FBT001  # a parameter of pytest
) -> None:
    number, stored = kept

    async def play() -> None:
        actor = stage.actor()
        if warm:
            await warmed(actor)
        theirs = Theirs(cluster, stored)
        revision = cluster.nodes[0].revision()
        for ttl in (5, 60):
            for kind, capacity in SIZES:
                for queue in (True, False):
                    ask = actor.ask(ttl=ttl, kind=kind, capacity=capacity, queue=queue)
                    for _ in range(2):  # the second is the same claim, sent again
                        with pytest.raises(EngineRefused, match=refusal(number)):
                            await actor.claim(ask)
                    assert await actor.renew(ask) == [None]
                    assert await actor.resign(ask, doubt=not queue) == [False]
        (said,) = await actor.engine.claim_all([actor.ask(queue=False)], actor.deadline)
        assert isinstance(said, EngineRefused)
        if warm:
            assert cluster.nodes[0].revision() == revision, "something was written"
        assert theirs.is_untouched()
        assert len(keys_on(cluster)) == 1
        theirs.end()
        assert (await actor.claim(actor.ask())).granted

    stage.mode.run(play())


def test_a_holder_keeps_its_lease_though_another_version_has_left_a_claim_behind_it(
    stage: Stage, cluster: EtcdCluster, kept: tuple[int, bytes]
) -> None:
    number, stored = kept

    async def play() -> None:
        holder, other = stage.client(), stage.client()
        actor = await warmed(stage.actor())
        lease = await acquire(holder.lock("x", ttl=1.0))
        waiter = actor.ask(ttl=60)
        assert not (await actor.claim(waiter)).granted
        theirs = Theirs(cluster, stored)
        with pytest.raises(EngineRefused, match=refusal(number)):
            await acquire(other.lock("x", ttl=1.0), timeout=2)
        with pytest.raises(EngineRefused, match=refusal(number)):
            await actor.claim(actor.ask(queue=False))
        await stage.mode.sleep(2.5)
        assert lease.remaining > 0
        assert not (await actor.renew_one(waiter)).granted
        await release(lease)
        assert (await actor.renew_one(waiter)).granted  # it was ahead of theirs
        assert (await actor.renew_one(waiter)).granted
        assert theirs.is_untouched()
        await actor.resign(waiter)
        with pytest.raises(EngineRefused, match=refusal(number)):
            await actor.claim(actor.ask())
        assert theirs.is_untouched()
        theirs.end()
        assert (await actor.claim(actor.ask())).granted

    stage.mode.run(play())


@pytest.mark.parametrize("capacity", [2, SHARED])
def test_sharers_renew_and_are_woken_ahead_of_a_claim_of_another_format(
    stage: Stage, cluster: EtcdCluster, kept: tuple[int, bytes], capacity: int
) -> None:
    async def play() -> None:
        actor, waiting = stage.actor(), stage.actor()
        await waiting.attend()
        holder, waiter = (
            actor.ask(capacity=capacity),
            waiting.ask(capacity=capacity, weight=capacity),
        )
        await actor.claim(holder)
        assert not (await waiting.claim(waiter)).granted
        theirs = Theirs(cluster, kept[1])
        assert (await actor.renew_one(holder)).granted
        assert (await actor.claim(holder)).granted  # sent again, as after a lost reply
        await actor.resign(holder)
        assert [(wake.id, wake.granted) for wake in await waiting.wakes(1)] == [(waiter.id, True)]
        assert (await waiting.renew_one(waiter)).granted
        assert theirs.is_untouched()

    stage.mode.run(play())


def test_inspect_shows_what_it_can_read_and_does_not_call_a_taken_name_free(
    stage: Stage, cluster: EtcdCluster, kept: tuple[int, bytes], caplog: pytest.LogCaptureFixture
) -> None:
    number, stored = kept

    async def play() -> None:
        actor = stage.actor()
        held, beside = actor.ask(), actor.ask("xy")
        await actor.claim(beside)
        theirs = Theirs(cluster, stored)
        assert [entry.id for entry in await actor.every("x")] == [beside.id]
        assert refusal(number) in caplog.text
        with pytest.raises(EngineRefused, match=refusal(number)):
            await actor.entries("x")
        theirs.end()
        await actor.claim(held)
        theirs = Theirs(cluster, stored)
        assert [(each.id, each.granted) for each in await actor.entries("x")] == [(held.id, True)]
        assert theirs.is_untouched()

    stage.mode.run(play())


def test_a_waiter_behind_a_claim_that_becomes_unreadable_is_told_and_others_renew(
    stage: Stage, cluster: EtcdCluster
) -> None:
    async def play() -> None:
        actor = stage.actor()
        asks: list[Any] = [actor.ask(ttl=60) for _ in range(3)]
        asks.append(actor.ask("y", ttl=60))
        for ask in asks:
            await actor.claim(ask)
        key = f"lockfast/claim/x/{asks[1].id}"
        cluster.nodes[0].post("kv/put", key=encoded(key), value=encoded("v1 1 junk"))
        first, second, third, elsewhere = await actor.renew(*asks)
        assert isinstance(first, Standing)
        assert first.granted
        assert isinstance(elsewhere, Standing)
        assert elsewhere.granted
        for said in (second, third):
            assert isinstance(said, EngineRefused)
            assert "was not written by lockfast" in str(said)
        with pytest.raises(EngineRefused, match="was not written by lockfast"):
            await actor.claim(asks[2])

    stage.mode.run(play())


def test_a_record_that_only_begins_like_ours_refuses_a_claim_and_nothing_is_left(
    stage: Stage, cluster: EtcdCluster
) -> None:
    """etcd compares the beginning, so the claim is put, and deleted when the rest is read."""

    async def play() -> None:
        actor = await warmed(stage.actor())
        for kind, capacity in SIZES:
            theirs = Theirs(cluster, b"v1 %d junk" % kind)
            for queue in (True, False):
                ask = actor.ask(kind=kind, capacity=capacity, queue=queue)
                with pytest.raises(EngineRefused, match="was not written by lockfast"):
                    await actor.claim(ask)
            assert theirs.is_untouched()
            assert len(keys_on(cluster)) == 1
            theirs.end()

    stage.mode.run(play())
