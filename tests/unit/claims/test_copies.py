"""Copies of a claim whose outcome is unknown."""

from __future__ import annotations

import pytest

from lockfast.blocking.client import Client
from lockfast.claims.session import Session
from lockfast.engines import opener
from lockfast.errors import EngineUnavailable
from lockfast.port import Ask, Standing
from lockfast.runtime.threads import Threads
from lockfast.testing.harness.faults import Shaky
from lockfast.url import parse


class Mute(Shaky):
    """Answers no claim, and remembers until when it might have sent each."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[tuple[float, float]] = []

    async def claim(self, ask: Ask, deadline: float) -> Standing | None:
        self.times.append((deadline, ask.not_after))
        raise EngineUnavailable("no answer", sent=True)


def test_no_copy_has_time_to_be_sent_when_its_id_is_dead() -> None:
    runtime, way = Threads(), Mute()
    target = parse("memory://mute")
    with Client(Session(lambda: way.to(opener(target, runtime)()), runtime)) as client:
        with pytest.raises(EngineUnavailable):
            client.lock("x", ttl=0.5).acquire()
        assert len(way.times) > 1
        assert all(deadline <= not_after for deadline, not_after in way.times), way.times
