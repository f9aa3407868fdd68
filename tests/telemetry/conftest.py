"""What the tests of telemetry share: an engine in memory, and what is seen of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.contract.benches import MemoryUrlBench
from tests.telemetry.seen import Seen, instrumented


@pytest.fixture
def bench() -> MemoryUrlBench:
    return MemoryUrlBench()


@pytest.fixture
def seen() -> Iterator[Seen]:
    with instrumented() as seen:
        yield seen
