"""What tests of faults share: a stage in each mode, on the bench that the module brings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import MODES, Bench, Stage


@pytest.fixture(params=sorted(MODES))
def stage(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Stage]:
    mode = MODES[request.param]()
    stage = Stage(bench, mode)
    yield stage
    mode.run(stage.clear())
    mode.close()
