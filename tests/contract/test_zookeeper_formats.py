"""Claims in other formats and of other kinds on one name: what is stored stays as it is."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from kazoo.client import KazooClient

from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.engine import ZooKeeperEngine
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable, KindMismatch
from lockfast.port import SHARED, Ask, Kind, Shape, Standing
from lockfast.testing import Actor, Stage
from tests.contract.benches import ZooKeeperBench
from tests.contract.zookeeper_requests import is_create, through
from tests.servers import Proxy, ZooKeeper

ID = "0123456789abcdef0123456789abcdef"
STORED = {
    0: (f"{ID}-1-1-", b"30000 0\n{}"),  # as commit c0ff680 wrote it
    2: (f"{ID}-1-2_1_0000000001-", b"nobody knows yet"),
}
LONG = 100  # units: nothing expires here
UNKNOWN_FORMATS = pytest.mark.parametrize("number", STORED)


@pytest.fixture(scope="module")
def server() -> Iterator[ZooKeeper]:
    with ZooKeeper() as server:
        yield server


@pytest.fixture
def bench(server: ZooKeeper) -> ZooKeeperBench:
    return ZooKeeperBench(server)


@pytest.fixture
def proxy(server: ZooKeeper) -> Iterator[Proxy]:
    with Proxy(server.host, server.port) as proxy:
        yield proxy


class Other(NamedTuple):
    """A client that writes another format."""

    kazoo: KazooClient
    folder: str

    def claim(self, number: int) -> str:
        self.kazoo.ensure_path(self.folder)
        name, data = STORED[number]
        path: str = self.kazoo.create(f"{self.folder}/{name}", data, ephemeral=True, sequence=True)
        return path

    def content(self) -> dict[str, tuple[bytes, int]]:
        """Give each node with its data and the last transaction that changed it."""
        found = {}
        for child in self.kazoo.get_children(self.folder):
            data, stat = self.kazoo.get(f"{self.folder}/{child}")
            found[child] = data, stat.mzxid
        return found


@pytest.fixture
def other(server: ZooKeeper, stage: Stage) -> Iterator[Other]:
    assert isinstance(stage.bench, ZooKeeperBench)
    kazoo = KazooClient(server.address)
    kazoo.start()
    yield Other(kazoo, nodes.folder("/" + stage.bench.url.split("/", 3)[3], "x"))
    kazoo.stop()
    kazoo.close()


def asks(actor: Actor, *, queue: bool = True) -> list[Ask]:
    """Give a claim of each kind."""
    return [
        actor.ask(ttl=LONG, kind=kind, capacity=capacity, queue=queue)
        for kind, capacity in [(Kind.LOCK, 1), (Kind.READ_WRITE, SHARED), (Kind.SEMAPHORE, 5)]
    ]


def names_both(error: EngineError, number: int) -> bool:
    return f"'x' is stored in format {number}," in str(error) and "reads format 1:" in str(error)


@UNKNOWN_FORMATS
@pytest.mark.parametrize("queue", [True, False], ids=["queue", "no queue"])
def test_a_claim_beside_one_in_another_format_is_refused_and_changes_nothing(
    stage: Stage, other: Other, number: int, *, queue: bool
) -> None:
    async def play() -> None:
        actor = stage.actor()
        path = other.claim(number)
        before = other.content()
        for ask in asks(actor, queue=queue):
            for _ in range(2):  # the same claim again, as after a lost reply
                with pytest.raises(EngineRefused) as caught:
                    await actor.claim(ask)
                assert names_both(caught.value, number)
            assert await actor.renew(ask) == [None]
        assert other.content() == before
        other.kazoo.delete(path)
        lock = asks(actor, queue=queue)[0]
        assert (await actor.claim(lock)).granted
        assert await actor.resign(lock) == [True]
        assert other.content() == {}

    stage.mode.run(play())


@UNKNOWN_FORMATS
def test_a_claim_in_another_format_is_not_renewed_and_not_removed(
    stage: Stage, other: Other, number: int
) -> None:
    async def play() -> None:
        actor = stage.actor()
        other.claim(number)
        before = other.content()
        until = actor.ask(ttl=LONG).not_after
        same = Ask(ID, Shape("x", 30.0), queue=True, not_after=until, payload=b"")
        assert await actor.renew(same) == [None]
        for doubt in (False, True):
            assert await actor.resign(same, doubt=doubt) == [False]
        assert other.content() == before

    stage.mode.run(play())


@UNKNOWN_FORMATS
def test_what_another_format_leaves_behind_our_claims_ends_none_of_them(
    stage: Stage, other: Other, number: int
) -> None:
    async def play() -> None:
        actor, waiting = stage.actor(), stage.actor()
        await waiting.attend()
        holder, waiter = actor.ask(ttl=LONG), waiting.ask(ttl=LONG)
        assert (await actor.claim(holder)).granted
        assert not (await waiting.claim(waiter)).granted
        path = other.claim(number)
        before = other.content()
        standing = await actor.renew_one(holder)
        assert (standing.granted, standing.behind) == (True, 2)
        assert not (await waiting.renew_one(waiter)).granted
        assert (await actor.claim(holder)).granted  # sent again, though it was answered
        assert not (await waiting.claim(waiter)).granted
        with pytest.raises(EngineRefused):
            await actor.claim(actor.ask(ttl=LONG))
        assert other.content() == before
        assert await actor.resign(holder) == [True]
        assert [wake.id for wake in await waiting.wakes(1)] == [waiter.id]
        assert (await waiting.renew_one(waiter)).granted
        assert await waiting.resign(waiter) == [True]
        assert list(other.content()) == [path.rpartition("/")[2]]

    stage.mode.run(play())


@UNKNOWN_FORMATS
def test_inspect_shows_what_it_can_read(stage: Stage, other: Other, number: int) -> None:
    async def play() -> None:
        actor = stage.actor()
        ours = actor.ask("y", ttl=LONG)
        await actor.claim(ours)
        path = other.claim(number)
        with pytest.raises(EngineRefused) as caught:
            await actor.entries("x")
        assert names_both(caught.value, number)
        assert [entry.id for entry in await actor.every("")] == [ours.id]
        other.kazoo.delete(path)
        holder = actor.ask(ttl=LONG)
        await actor.claim(holder)
        other.claim(number)
        assert [entry.id for entry in await actor.entries("x")] == [holder.id]
        assert {entry.id for entry in await actor.every("")} == {ours.id, holder.id}

    stage.mode.run(play())


async def lost(actor: Actor, ask: Ask, proxy: Proxy) -> None:
    """Send a claim that arrives, and whose reply does not."""
    await actor.claim(actor.ask("elsewhere", ttl=LONG))  # there is a session
    proxy.lose_reply_matching(is_create)
    with pytest.raises(EngineUnavailable):
        await actor.claim(ask)


async def claimed(actor: Actor, ask: Ask) -> Standing:
    """Send a claim until the connection is back, and give or raise what comes out."""
    while True:
        try:
            return await actor.claim(ask)
        except EngineUnavailable:
            continue


async def answered(actor: Actor, ask: Ask) -> object:
    """Renew a claim until the connection is back, and give what comes out."""
    while isinstance((found := (await actor.renew(ask))[0]), EngineUnavailable):
        pass
    return found


@UNKNOWN_FORMATS
@pytest.mark.parametrize("again", ["claim", "renew"])
def test_a_claim_whose_reply_was_lost_is_refused_beside_another_format(
    stage: Stage, other: Other, proxy: Proxy, number: int, again: str
) -> None:
    async def play() -> None:
        through(stage, proxy)
        actor = stage.actor()
        path = other.claim(number)
        before = other.content()
        ask = actor.ask(ttl=LONG)
        await lost(actor, ask, proxy)
        assert len(other.content()) == 2
        if again == "claim":
            with pytest.raises(EngineRefused) as caught:
                await claimed(actor, ask)
            assert names_both(caught.value, number)
        else:
            error = await answered(actor, ask)
            assert isinstance(error, EngineRefused)
            assert names_both(error, number)
        assert other.content() == before
        assert await actor.renew(ask) == [None]
        other.kazoo.delete(path)
        assert (await actor.claim(actor.ask(ttl=LONG))).granted

    stage.mode.run(play())


def test_a_claim_that_was_not_checked_is_not_pushed_as_granted(stage: Stage) -> None:
    """A client of another format may hold the name behind it: see `recipe._agree`."""

    async def play() -> None:
        owner, actor = stage.actor(), stage.actor()
        await actor.attend()
        holder, waiter = owner.ask(ttl=LONG), actor.ask(ttl=LONG)
        await owner.claim(holder)
        assert not (await actor.claim(waiter)).granted
        assert isinstance(actor.engine, ZooKeeperEngine)
        mine = actor.engine._own.get(waiter.id)
        assert mine is not None
        mine.admitted, mine.obstacle = False, None  # as if the list behind its creation was lost
        await owner.resign(holder)
        assert await actor.wakes(0) == []
        assert (await actor.renew_one(waiter)).granted  # this checks it
        assert mine.admitted

    stage.mode.run(play())


@pytest.mark.parametrize("again", ["claim", "renew"])
@pytest.mark.parametrize(
    ("kind", "capacity"), [(Kind.SEMAPHORE, 1), (Kind.READ_WRITE, SHARED)], ids=str
)
def test_a_claim_of_another_kind_whose_reply_was_lost_is_refused_and_leaves_nothing(
    stage: Stage, proxy: Proxy, kind: Kind, capacity: int, again: str
) -> None:
    async def play() -> None:
        past = through(stage, proxy)
        actor = stage.actor()
        stage.bench.url = past  # type: ignore[attr-defined]  # of the bench that `through` has seen
        owner = stage.actor()
        holder = owner.ask(ttl=LONG)
        assert (await owner.claim(holder)).granted
        ask = actor.ask(ttl=LONG, kind=kind, capacity=capacity)
        await lost(actor, ask, proxy)
        assert [entry.id for entry in await owner.entries("x")] == [holder.id, ask.id]
        if again == "renew":
            assert isinstance(await answered(actor, ask), KindMismatch)
        for _ in range(2):
            with pytest.raises(KindMismatch) as caught:
                await claimed(actor, ask)
            assert (caught.value.asked, caught.value.ruling) == (kind.words, "lock")
            assert [entry.id for entry in await owner.entries("x")] == [holder.id]
        assert (await owner.renew_one(holder)).behind == 0
        await owner.resign(holder)
        assert await owner.entries("x") == []

    stage.mode.run(play())
