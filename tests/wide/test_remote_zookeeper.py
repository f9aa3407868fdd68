"""The contract through the service in front of three ZooKeeper servers: both kinds of client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import (
    BodyContract,
    ClientContract,
    DeposedContract,
    PortContract,
    ProcessContract,
    QueueShapeContract,
    ShapeContract,
)
from tests.contract.benches import ZooKeeperBench
from tests.contract.service_bench import ServiceBench
from tests.servers import ZooKeeperEnsemble


@pytest.fixture(scope="module")
def bench() -> Iterator[ServiceBench]:
    with (
        ZooKeeperEnsemble() as ensemble,
        ServiceBench(ZooKeeperBench(ensemble)) as bench,
    ):
        yield bench


class TestPort(PortContract):
    pass


# A claim ends with the session of the replica that made it. So the thread that renews for a blocked
# event loop cannot renew it over a connection of its own: `guarantees()` says that leases are lost
# with their replica. These tests are left out.


class TestQueueShapes(QueueShapeContract):
    test_a_writer_a_reader_and_a_permit_are_kept_while_the_loop_is_blocked = None  # type: ignore[assignment]


class TestClient(ClientContract):
    test_what_is_held_is_kept_while_the_loop_is_blocked_for_three_ttls = None  # type: ignore[assignment]
    test_a_lease_that_is_broken_while_the_loop_is_blocked_is_lost_at_once = None  # type: ignore[assignment]


class TestShapes(ShapeContract):
    pass


class TestDeposed(DeposedContract):
    pass


class TestBodies(BodyContract):
    pass


class TestProcesses(ProcessContract):
    pass
