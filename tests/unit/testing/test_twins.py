"""A computer that pauses makes the comparison with the reference model void, and not fail."""

from __future__ import annotations

import time

from lockfast.testing import MODES, Stage
from lockfast.testing.harness.state_machine import QueueMachine
from lockfast.testing.harness.twins import LATE
from tests.contract.benches import MemoryBench


def test_a_pause_before_the_clock_goes_back_spoils_the_comparison() -> None:
    """A claim may have expired at the engine in the pause. The model has it still."""
    machine = QueueMachine(Stage(MemoryBench(), MODES["threads"]()))
    time.sleep(LATE + 0.05)
    machine.set_time(machine.time + machine.drift() - 0.5, -0.25)
    assert machine.spoiled
    machine.teardown()
