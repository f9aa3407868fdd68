"""The client's contract through the service, with locks that end with their connection.

The option makes a client renew more often than a ttl asks for, and a replica answer by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Self

import pytest

from lockfast.testing import BodyContract, ClientContract
from tests.contract.benches import RedisBench
from tests.contract.service_bench import ServiceBench
from tests.servers import Redis


class EndingBench(ServiceBench):
    """A service whose clients ask for the end of their locks with the connection."""

    def __enter__(self) -> Self:
        super().__enter__()
        self.url += "?on_disconnect=1"
        return self


@pytest.fixture(scope="module")
def bench() -> Iterator[ServiceBench]:
    with Redis() as server, EndingBench(RedisBench(server.url, server)) as bench:
        yield bench


class TestClient(ClientContract):
    pass


class TestBodies(BodyContract):
    pass
