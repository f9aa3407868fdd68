"""What tests of faults share: a stage in each colour, on the bench that the module brings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from lockfast.testing import COLOURS, Bench, Stage


@pytest.fixture(params=sorted(COLOURS))
def stage(request: pytest.FixtureRequest, bench: Bench) -> Iterator[Stage]:
    colour = COLOURS[request.param]()
    stage = Stage(bench, colour)
    yield stage
    colour.run(stage.clear())
    colour.close()
