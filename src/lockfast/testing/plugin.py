"""The pytest plugin: a fixture for the tests of programs that use lockfast.

Every run of pytest imports this module, so it imports next to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from lockfast.testing.lab import Lab


@pytest.fixture
def lockfast_lab() -> Iterator[Lab]:
    """Return a `Lab`: a memory engine on a clock that the test moves.

    Yields:
        The lab, with `client`, `clock`, `connect`, `lose` and `pause`. It closes its clients.
    """
    from lockfast.testing.lab import Lab  # noqa: PLC0415  # only tests that use it pay for it

    with Lab() as lab:
        yield lab
