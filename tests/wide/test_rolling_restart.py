"""Three replicas are restarted in turn under load: no lease is lost, and every lock is acquired."""

from __future__ import annotations

import contextlib
import time

import pytest

from tests.servers import Replica, wait_until
from tests.service.rolling import TTL, Load, restart_each
from tests.wide.behind import ENGINES, engine

_WARM = 500  # acquisitions before and after


@pytest.mark.parametrize("name", ENGINES)
def test_a_rolling_restart_costs_no_lease_and_no_acquisition(name: str) -> None:
    with engine(name) as url, contextlib.ExitStack() as stack:
        replicas = [stack.enter_context(Replica(url)) for _ in range(3)]
        load = Load(f"lockfast://{','.join(replica.address for replica in replicas)}")
        with load.running():
            wait_until(lambda: load.pairs > _WARM, "the load runs", 60.0)
            restart_each(replicas)
            time.sleep(TTL)  # what was held in the last restart is renewed, or lost by then
            before = load.pairs
            wait_until(lambda: load.pairs > before + _WARM, "the load goes on", 60.0)
    assert load.wrong == []
