"""One browser and one Redis for the tests of a module."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Redis
from tests.web.browser.chromium import Chromium


@pytest.fixture(scope="module")
def chromium() -> Iterator[Chromium]:
    with Chromium() as found:
        yield found


@pytest.fixture
def browser(chromium: Chromium) -> Chromium:
    chromium.fresh()
    return chromium


@pytest.fixture(scope="module")
def server() -> Iterator[Redis]:
    with Redis() as found:
        yield found


@pytest.fixture
def url(server: Redis) -> str:
    server.command("FLUSHALL")
    return server.url
