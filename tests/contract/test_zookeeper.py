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
