"""The contract on an ensemble of three: all of it, in both modes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator

import pytest
from kazoo import retry
from kazoo.protocol import connection

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
