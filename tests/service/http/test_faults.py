"""An engine that does not answer, and replies that are lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from threading import Thread

import pytest

from lockfast.errors import EngineRefused, EngineUnavailable, KindMismatch
from lockfast.port import Standing
from lockfast.service.config import Config
from lockfast.service.http import departures
from tests.servers import wait_until
from tests.service.http.site import Answered, Site
from tests.service.test_access import Guarded


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with Guarded(Config(port=0)) as found:
        yield found


@pytest.fixture
def here(guarded: Guarded) -> Site:
    site = Site(guarded.port)
    site.release(site.acquire("first").body["handle"])  # the engine is open, and its time known
    guarded.held.calls.clear()
    guarded.held.asks.clear()
    return site


def test_an_engine_that_is_away_is_503(guarded: Guarded, here: Site) -> None:
    handle = here.acquire("a").body["handle"]
    guarded.held.cut = True
    for answer in (
        here.acquire("b"),
        here.go_on(handle),
        here.post("/v1/renew", {"handles": [handle]}),
        here.post("/v1/release", {"handle": handle}),
        here.get("/v1/locks"),
        here.post("/v1/break", {"name": "a", "id": "0" * 32, "reason": "test"}),
    ):
        assert answer.status == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.body["error"] == "unavailable"
    guarded.held.cut = False
    assert here.release(handle)


def test_a_claim_whose_reply_was_lost_is_given_up(guarded: Guarded, here: Site) -> None:
    guarded.held.failures.append(EngineUnavailable("lost", sent=True))
    assert here.acquire("a").status == 503
    wait_until(lambda: len(guarded.held.of("bury")) == 1, "it was resigned, with a tombstone")
    (claim, burial) = guarded.held.asks
    assert claim.id == burial.id
    assert burial.fixed is not None
    assert claim.fixed is not None
    assert burial.fixed >= claim.fixed


def test_a_claim_that_was_not_sent_is_not_given_up(guarded: Guarded, here: Site) -> None:
    guarded.held.failures.append(EngineUnavailable("not sent", sent=False))
    assert here.acquire("a").status == 503
    time.sleep(0.3)
    assert not guarded.held.of("bury")


def test_a_lost_claim_with_an_idempotency_key_is_kept(guarded: Guarded, here: Site) -> None:
    guarded.held.after_claim = None
    guarded.held.failures.append(EngineUnavailable("lost", sent=True))
    assert here.acquire("a", key="k").status == 503
    time.sleep(0.3)
    assert not guarded.held.of("bury")
    assert here.acquire("a", key="k").status == 200
    assert len({ask.id for ask in guarded.held.asks}) == 1


def test_a_resignation_that_fails_is_tried_again(
    guarded: Guarded, here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(departures, "PAUSE", 0.05)
    lost = EngineUnavailable("lost", sent=True)
    guarded.held.failures += [lost, lost, lost]
    assert here.acquire("a").status == 503
    wait_until(lambda: len(guarded.held.of("bury")) == 3, "it was tried until it succeeded")
    time.sleep(0.5)
    assert len(guarded.held.of("bury")) == 3


def test_a_waiter_outlasts_a_short_outage(guarded: Guarded, here: Site) -> None:
    held = here.acquire("a", ttl=3).body
    found: list[Answered] = []
    thread = Thread(target=lambda: found.append(here.acquire("a", ttl=3, wait=10)))
    thread.start()
    wait_until(lambda: len(here.who("a")) == 2, "it waits")
    guarded.held.unrenewed = True
    time.sleep(1.5)
    guarded.held.unrenewed = False
    here.release(held["handle"])
    thread.join()
    assert found[0].status == 200


def test_a_waiter_whose_engine_is_away_at_the_end_is_told_so(guarded: Guarded, here: Site) -> None:
    here.acquire("a", ttl=5)
    found: list[Answered] = []
    thread = Thread(target=lambda: found.append(here.acquire("a", ttl=2, wait=2)))
    thread.start()
    wait_until(lambda: len(here.who("a")) == 2, "it waits")
    guarded.held.unrenewed = True
    thread.join()
    assert found[0].status == 503
    wait_until(lambda: len(here.who("a")) == 1, "it has left the queue")


def test_a_refusal_of_the_engine_is_502(guarded: Guarded, here: Site) -> None:
    guarded.held.failures.append(EngineRefused("no memory"))
    answer = here.acquire("a")
    assert (answer.status, answer.body["error"]) == (502, "refused")
    assert "no memory" in answer.body["message"]
    time.sleep(0.2)
    assert not guarded.held.of("bury")
    assert not guarded.held.of("resign")


@pytest.mark.parametrize("path", ["/v1/acquire", "/v1/renew", "/v1/release"])
def test_another_kind_is_told_as_the_document_says(guarded: Guarded, here: Site, path: str) -> None:
    handle = here.acquire("a").body["handle"]
    guarded.held.failures.append(KindMismatch("a", "semaphore", "mutex"))
    answer = here.post(path, {"handle": handle})
    assert (answer.status, answer.body["error"]) == (409, "kind-mismatch")


def test_another_kind_that_an_inspection_finds_is_answered(guarded: Guarded, here: Site) -> None:
    guarded.held.failures.append(KindMismatch("a", "semaphore", "mutex"))
    answer = here.post("/v1/break", {"name": "a", "id": "0" * 32, "reason": "a test"})
    assert answer.status == 502
    assert "in use as" in answer.body["message"]


def test_an_engine_whose_time_is_not_known_is_asked_for_it(guarded: Guarded, here: Site) -> None:
    guarded.held.hidden = True
    assert here.acquire("a").status == 200


def test_a_lease_whose_id_was_used_again_is_gone(guarded: Guarded, here: Site) -> None:
    """It has expired, and a copy of the request, sent late, has acquired the lock with its key."""
    first = here.acquire("a", ttl=0.2, key="k").body
    time.sleep(0.5)
    second = here.acquire("a", ttl=30, key="k").body
    assert int(second["ticket"]) > int(first["ticket"])
    assert here.renew(first["handle"]) == [{"state": "gone"}]
    assert here.go_on(first["handle"]).status == 410
    assert here.renew(second["handle"])[0]["state"] == "held"
    assert guarded.held.calls


def test_a_renewal_that_a_later_one_has_overtaken_is_not_valid(
    guarded: Guarded, here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A replica on etcd says so if its client has renewed at another one."""
    granted = here.acquire("a").body
    handle, ticket = granted["handle"], int(granted["ticket"])

    async def late(*_: object, **__: object) -> list[Standing]:
        return [Standing(ticket, granted=True, left=0.0)]

    monkeypatch.setattr(guarded.held, "renew", late)
    (result,) = here.renew(handle)
    assert result["state"] == "failed"
    assert "valid" not in result
    assert here.go_on(handle).status == 503


def test_a_short_ttl_does_not_hurry_the_others(guarded: Guarded, here: Site) -> None:
    short, long = (here.acquire(name, ttl=ttl).body for name, ttl in (("a", 1), ("b", 60)))
    guarded.held.deadlines.clear()
    assert [each["state"] for each in here.renew(short["handle"], long["handle"])] == ["held"] * 2
    assert len(guarded.held.of("renew")) == 2
    first, second = guarded.held.deadlines
    assert abs(second - first) > 3.0
