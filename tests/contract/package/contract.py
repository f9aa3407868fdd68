"""The contract, as the author of the package runs it."""

from __future__ import annotations

import secrets

import pytest
from lockfast_example import ExampleEngine

import lockfast
from lockfast import aio
from lockfast.testing import (
    BodyContract,
    ClientContract,
    PortContract,
    QueueShapeContract,
    ShapeContract,
    UrlBench,
)


class ExampleBench(UrlBench):
    """The engine by its URL."""

    unit = 0.25  # the tests cannot move its clock, and wait

    def __init__(self) -> None:
        super().__init__("example://")
        self.wipe()

    def wipe(self) -> None:
        self.url = f"example://{secrets.token_hex(8)}"


@pytest.fixture(scope="module")
def bench() -> ExampleBench:
    return ExampleBench()


class TestPort(PortContract):
    pass


class TestClient(ClientContract):
    pass


class TestShapes(ShapeContract):
    pass


class TestQueueShapes(QueueShapeContract):
    pass


class TestBodies(BodyContract):
    pass


def test_a_client_is_made_with_the_factory_alone() -> None:
    with lockfast.connect(engine=ExampleEngine) as client, client.lock("x") as lease:
        assert lease.token > 0


@pytest.mark.parametrize("connect", [lockfast.connect, aio.connect])
def test_an_engine_for_another_port_is_refused_with_both_numbers(connect: object) -> None:
    with pytest.raises(ValueError, match=r"number 1000 of lockfast's port.* has number 3:"):
        connect("later://x")  # type: ignore[operator]
