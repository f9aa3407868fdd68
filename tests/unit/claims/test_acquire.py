"""An acquisition uses its time, and no more, though the engine fails or its id is dead."""

from __future__ import annotations

import time

import pytest

import lockfast
from lockfast.claims import acquire
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


def test_an_engine_that_comes_back_before_the_timeout_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A pause of the backoff that would last beyond the timeout ended the attempts at once."""
    monkeypatch.setattr(acquire, "longer", lambda _: 60.0)
    with lockfast.connect("memory://") as client:
        with client.lock("warm"):
            pass
        claims, real = [], client._session.engine.claim

        async def claim(ask: Ask, deadline: float) -> Standing | None:
            claims.append(ask.id)
            if len(claims) < 3:
                raise EngineUnavailable("it is restarted", sent=False)
            return await real(ask, deadline)

        client._session.engine.claim = claim  # type: ignore[method-assign]
        with client.lock("x").acquire(timeout=1.0):
            assert len(claims) == 3


def test_an_engine_that_stays_away_is_waited_for_until_the_timeout(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acquire, "longer", lambda _: 60.0)
    with lockfast.connect("memory://") as client:
        with client.lock("warm"):
            pass
        claims = []

        async def claim(ask: Ask, deadline: float) -> Standing | None:
            del deadline
            claims.append(ask.id)
            raise EngineUnavailable("it is gone", sent=False)

        client._session.engine.claim = claim  # type: ignore[method-assign]
        began = client._session.runtime.now()
        with pytest.raises(EngineUnavailable):
            client.lock("x").acquire(timeout=1.0)
        assert client._session.runtime.now() - began >= 1.0 - acquire.LAST
        assert len(claims) == 3  # at once, again at once, and shortly before the end
