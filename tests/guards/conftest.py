"""One object store for all tests of its guard: it takes seconds to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import ObjectStore


@pytest.fixture(scope="session")
def store() -> Iterator[ObjectStore]:
    with ObjectStore() as server:
        yield server
