"""What tests of faults share: a stage in each mode, on the bench that the module brings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import MODES, Bench, Stage

ONE_HALF = {"test_redlock.py", "test_sqlite.py", "test_topologies.py", "test_zookeeper.py"}
"""Of the contract on these engines, `make test` has the half for threads, and `make wide` the rest.
The tests of their faults are run in both."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        in_class = isinstance(item, pytest.Function) and item.cls is not None
        if item.path.name in ONE_HALF and in_class and "[asyncio" in item.name:
            item.add_marker(pytest.mark.wide)


@pytest.fixture(params=sorted(MODES))
def stage(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Stage]:
    mode = MODES[request.param]()
    stage = Stage(bench, mode)
    yield stage
    mode.run(stage.clear())
    mode.close()
