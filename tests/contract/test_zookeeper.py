"""The contract on an ensemble of three: all of it, in both modes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from kazoo import retry
from kazoo.client import KazooClient
from kazoo.protocol import connection
from kazoo.security import make_acl

from lockfast.engines.zookeeper import nodes
from lockfast.engines.zookeeper.engine import ZooKeeperEngine
from lockfast.engines.zookeeper.own_claims import OwnClaim
from lockfast.testing import (
    BodyContract,
    ClientContract,
    DeposedContract,
    MachineContract,
    PortContract,
    ProcessContract,
    QueueShapeContract,
    ShapeContract,
    Stage,
    SteadyMachine,
)
from lockfast.testing.harness.roaming import again
from lockfast.testing.harness.stage import Actor
from lockfast.testing.harness.twins import NAMES
from tests.contract.benches import ZooKeeperBench, ZooKeeperMovedBench
from tests.servers import ZooKeeperEnsemble


@pytest.fixture(scope="module")
def ensemble() -> Iterator[ZooKeeperEnsemble]:
    with ZooKeeperEnsemble() as ensemble:
        yield ensemble


@pytest.fixture(scope="module")
def bench(ensemble: ZooKeeperEnsemble) -> ZooKeeperBench:
    return ZooKeeperBench(ensemble)


class TestPort(PortContract):
    pass


class TestClient(ClientContract):
    pass


class TestBodies(BodyContract):
    pass


class TestProcesses(ProcessContract):
    pass


class ReapedMachine(SteadyMachine):
    """The same; but the reaper sleeps by the real clock, so it is woken when time was moved."""

    def set_time(self, wanted: float, step: float) -> None:
        super().set_time(wanted, step)
        engine = self.actor.engine
        assert isinstance(engine, ZooKeeperEngine)
        while engine._own.doomed(self.stage.bench.now()):
            with engine._reaper._awake:
                engine._reaper._awake.notify()
            time.sleep(0.001)
        for name in NAMES:  # what the reaper has ended lets others in: the model looks too
            self.model.resign(self.actor.ask(name), self.time, doubt=False)
        self.compare_pushes()


class TestMachine(MachineContract):
    machine = ReapedMachine  # a claim's time is counted by its own process
    examples = MachineContract.examples // 10

    @pytest.fixture
    def bench(
        self, ensemble: ZooKeeperEnsemble, monkeypatch: pytest.MonkeyPatch
    ) -> ZooKeeperMovedBench:
        # kazoo's threads roll the dice that Hypothesis watches: give them some of their own.
        for module in (connection, retry):
            monkeypatch.setattr(module, "random", random.Random())  # noqa: S311  # no secret
        return ZooKeeperMovedBench(ensemble)


class TestShapes(ShapeContract):
    pass


class TestQueueShapes(QueueShapeContract):
    pass


class TestDeposed(DeposedContract):
    pass


AGE = "lockfast.engines.zookeeper.break_records.REMEMBERED"  # seconds


def test_records_of_breaks_are_not_shown_after_their_time_and_the_next_one_removes_them(
    stage: Stage,
) -> None:
    """They stayed until 64 others of their bucket were written."""

    async def play() -> None:
        actor = stage.actor()
        engine, ids = actor.engine, [actor.ask().id for _ in range(2)]
        await engine.record("x", ids[0], b"old", actor.deadline)
        assert await engine.records("x", actor.deadline) == [b"old"]
        await stage.mode.sleep(0.3)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(AGE, 0.2, raising=False)
            assert await engine.records("x", actor.deadline) == []
            await engine.record("x", ids[1], b"new", actor.deadline)
        assert await engine.records("x", actor.deadline) == [b"new"]

    stage.mode.run(play())


def test_records_of_breaks_are_read_without_the_right_to_write(
    stage: Stage, ensemble: ZooKeeperEnsemble
) -> None:
    """The server's time comes with a write, and an onlooker may have no right to that."""
    bench = stage.bench
    assert isinstance(bench, ZooKeeperBench)
    root = "/" + bench.url.split("/", 3)[3]

    async def play() -> None:
        actor = stage.actor()
        await actor.engine.record("x", actor.ask().id, b"said", actor.deadline)
        owner = KazooClient(ensemble.servers[0].address)
        owner.start()
        try:
            owner.set_acls(nodes.breaks(root), [make_acl("world", "anyone", read=True)])
        finally:
            owner.stop()
            owner.close()
        assert await actor.engine.records("x", actor.deadline) == [b"said"]

    stage.mode.run(play())


# --- two engines that are asked about one claim ----------------------------------------------


@pytest.mark.parametrize("queue", [True, False])
def test_a_claim_of_another_engine_is_dead_here(stage: Stage, *, queue: bool) -> None:
    """It ends with the session of the engine that made it, at any moment: no standing counts."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask(queue=queue)
        first = await old.claim(ask)
        assert first.granted
        copy = again(ask, None, 2)
        assert await new.is_dead(copy)
        assert await new.is_dead(copy)
        moved = again(ask, first, 2)
        assert await new.renew(moved) == [None]
        assert await new.is_dead(moved)
        assert (await old.renew_one(ask)).granted
        assert [entry.id for entry in await new.entries("x")] == [ask.id]

    stage.mode.run(play())


def test_a_waiter_of_another_engine_is_dead_here_and_keeps_its_place(stage: Stage) -> None:
    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        holder, waiter = new.ask(), old.ask()
        await new.claim(holder)
        first = await old.claim(waiter)
        assert await new.is_dead(again(waiter, None, 2))
        assert await new.renew(again(waiter, first, 2)) == [None]
        await new.resign(holder)
        assert (await old.renew_one(waiter)).granted

    stage.mode.run(play())


def test_any_engine_resigns_a_claim(stage: Stage) -> None:
    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask()
        moved = again(ask, await old.claim(ask), 2)
        assert await new.resign(moved, doubt=True) == [True]
        assert await new.resign(moved, doubt=True) == [False]
        assert await old.renew(ask) == [None]
        assert await old.is_dead(ask)
        assert await new.is_dead(moved)
        assert await old.entries("x") == []

    stage.mode.run(play())


def test_a_node_of_another_engine_is_not_taken_for_our_own(stage: Stage) -> None:
    """Our copy had no answer. Its id is in the queue, but on a session that we do not keep."""

    async def play() -> None:
        old, new = stage.actor(), stage.actor()
        ask = old.ask()
        assert (await new.claim(again(ask, None, 2))).granted
        engine = old.engine
        assert isinstance(engine, ZooKeeperEngine)
        await old.claim(old.ask("met"))
        folder = nodes.folder(engine._address.root, "x")
        with engine._pool.of(ask.shape.ttl) as session:
            unanswered = OwnClaim(ask, folder, session, stage.bench.now() + ask.shape.ttl)
        engine._own.enter(unanswered)
        assert await old.renew(ask) == [None]
        engine._own.enter(unanswered)
        assert await old.is_dead(ask)
        engine._own.enter(unanswered)
        await engine._recipe.withdraw(unanswered, old.deadline)
        assert [entry.id for entry in await new.entries("x")] == [ask.id]

    stage.mode.run(play())


def test_only_the_wakes_of_clients_that_are_heard_are_passed_on(stage: Stage) -> None:
    async def play() -> None:
        replica, other = stage.actor(), stage.actor()
        clients = [Actor(replica.engine, stage.bench) for _ in range(2)]
        holder = other.ask()
        await other.claim(holder)
        for client in clients:
            await client.attend()
            await client.claim(client.ask(f"{client.client} has connected"))
        deaf, heard = clients
        waiting = [each.ask(capacity=1) for each in clients]
        for client, ask in zip(clients, waiting, strict=True):
            await client.claim(ask)
        replica.engine.hear(deaf.client, on=False)
        await replica.wakes(0)
        await other.resign(holder)
        assert await heard.wakes(0) == []
        await deaf.resign(waiting[0])
        assert {wake.id for wake in await heard.wakes(1)} == {waiting[1].id}

    stage.mode.run(play())
