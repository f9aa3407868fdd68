"""A candidacy that is begun again while a callback of the last one still runs."""

from __future__ import annotations

import threading

import pytest

import lockfast
from lockfast.primitives import candidacy
from tests.servers import wait_until


def test_it_is_not_begun_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The old thread went on with its loop, so that two campaigned, and `on_gain` came twice."""
    monkeypatch.setattr(candidacy, "PARTING", 0.1)
    go_on, gained = threading.Event(), threading.Event()

    def gain(_: lockfast.Lease) -> None:
        gained.set()
        go_on.wait(20.0)

    with lockfast.connect("memory://candidacy") as client:
        mine = client.election("x", ttl=5.0).run(gain, bool)
        with mine:
            assert gained.wait(5.0)
        with pytest.raises(RuntimeError, match="one of its callbacks still runs"), mine:
            pass
        go_on.set()
        wait_until(lambda: mine._campaigning is None, "it has ended", 5.0)
        gained.clear()
        with mine:
            assert gained.wait(5.0)
