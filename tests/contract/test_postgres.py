"""The contract on PostgreSQL: all of it, in both colours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.engines.postgres import install
from lockfast.testing import (
    BodyContract,
    ClientContract,
    ClockContract,
    MachineContract,
    PortContract,
    ProcessContract,
)
from tests.contract.benches import PostgresBench
from tests.servers import Postgres, ServerClock


@pytest.fixture(scope="module")
def bench() -> Iterator[PostgresBench]:
    clock = ServerClock()
    with Postgres(env=clock.env) as server:
        install(server.url)
        yield PostgresBench(server, clock=clock)


class TestPort(PortContract):
    pass


class TestClock(ClockContract):
    pass


class TestMachine(MachineContract):
    pass


class TestClient(ClientContract):
    pass


class TestBodies(BodyContract):
    pass


class TestProcesses(ProcessContract):
    pass
