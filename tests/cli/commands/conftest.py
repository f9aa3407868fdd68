"""One Redis for the tests of a module, empty at the beginning of each."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.commands.calls import Calls
from tests.servers import Redis


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def url(server: Redis) -> str:
    server.command("FLUSHALL")
    return server.url


@pytest.fixture
def call(url: str, capsys: pytest.CaptureFixture[str]) -> Calls:
    return Calls(url, capsys)
