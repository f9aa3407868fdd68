"""An acquisition that has to begin again with another id keeps its deadline."""

from __future__ import annotations

import time

import pytest

import lockfast
from lockfast.errors import EngineUnavailable
from lockfast.port import Ask, Standing

TTL = 1.0


def test_a_try_ends_in_time_though_the_engine_took_its_first_id_for_dead() -> None:
    """Each id had the whole time: a try took up to twice as long as its ttl."""
    with lockfast.connect("memory://") as client:
        with client.lock("warm"):
            pass
        deadlines: list[float] = []

        async def claim(ask: Ask, deadline: float) -> Standing | None:
            del ask
            deadlines.append(deadline)
            if len(deadlines) == 1:
                time.sleep(0.7 * TTL)  # noqa: ASYNC251  # a thread drives it
                return None
            raise EngineUnavailable("no answer in time", sent=True)

        client._session.engine.claim = claim  # type: ignore[method-assign]
        began = client._session.runtime.now()
        with pytest.raises(EngineUnavailable):
            client.lock("x", ttl=TTL).try_acquire()
        assert len(deadlines) >= 2
        assert max(deadlines) - began < TTL + 0.1
