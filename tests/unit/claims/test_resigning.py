"""Resignations of which some fail: each claim has an answer, and only failed ones are repeated."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence

import pytest

import lockfast
from lockfast.blocking.client import Client
from lockfast.claims.session import Session
from lockfast.engines import opener
from lockfast.errors import EngineError, EngineRefused, EngineUnavailable
from lockfast.port import Ask
from lockfast.runtime.threads import Threads
from lockfast.testing.harness.faults import Shaky
from lockfast.url import parse
from tests.servers.process import wait_until


class Partly(Shaky):
    """Fails the resignation of some names, a number of times, and answers for all others."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: dict[str, list[EngineError]] = {}
        self.applied: set[str] = set()
        """The names whose claims are removed although their resignations fail."""
        self.asked: list[list[str]] = []

    async def resign(
        self, asks: Sequence[Ask], deadline: float, *, doubt: bool
    ) -> list[bool | Exception]:
        self.asked.append([ask.shape.name for ask in asks])
        answers: list[bool | Exception] = []
        for ask in asks:
            name = ask.shape.name
            errors = self.errors.get(name)
            if errors and name not in self.applied:
                answers.append(errors.pop())
                continue
            removed = await super().resign([ask], deadline, doubt=doubt)
            answers += [errors.pop()] if errors else removed
        return answers


@pytest.fixture
def way() -> Partly:
    return Partly()


@pytest.fixture
def client(way: Partly) -> Iterator[Client]:
    runtime, target = Threads(), parse("memory://partly")
    with Client(Session(lambda: way.to(opener(target, runtime)()), runtime)) as client:
        yield client


def lost(*, sent: bool) -> EngineError:
    return EngineUnavailable("lost by the test", sent=sent)


def test_a_release_whose_answer_is_an_error_is_repeated(client: Client, way: Partly) -> None:
    lease = client.lock("a").acquire(timeout=5)
    way.errors["a"] = [lost(sent=False), lost(sent=True)]
    lease.release()
    assert way.asked == [["a"]] * 3
    assert client.lock("a").queue() == []


def test_what_an_unanswered_release_has_removed_is_no_loss(client: Client, way: Partly) -> None:
    lease = client.lock("a").acquire(timeout=5)
    way.errors["a"], way.applied = [lost(sent=True)], {"a"}
    lease.release()
    assert lease.state is lockfast.State.RELEASED


def test_what_a_release_that_was_not_sent_cannot_have_removed_is_a_loss(
    client: Client, way: Partly
) -> None:
    lease = client.lock("a").acquire(timeout=5)
    way.errors["a"], way.applied = [lost(sent=False)], {"a"}
    with pytest.raises(lockfast.LeaseLost):
        lease.release()


def test_of_several_only_the_failed_are_repeated(client: Client, way: Partly) -> None:
    leases = client.lock_all("a", "b", "c").acquire(timeout=5)
    way.errors["b"] = [lost(sent=False), lost(sent=True)]
    way.errors["c"] = [lost(sent=False)]
    leases.release()
    assert way.asked == [["a", "b", "c"], ["b", "c"], ["b"]]
    assert leases.state is lockfast.State.RELEASED


def test_of_several_one_that_is_refused_is_reported_and_the_others_are_released(
    client: Client, way: Partly
) -> None:
    leases = client.lock_all("a", "b", "c").acquire(timeout=5)
    way.errors["b"] = [EngineRefused("refused by the test")]
    with pytest.raises(EngineRefused):
        leases.release()
    wait_until(lambda: not client._session.table._by_id, "the heart has resigned it")
    for name in ("a", "b", "c"):
        assert client.lock(name).queue() == []


def test_the_heart_repeats_only_what_has_failed(
    client: Client, way: Partly, caplog: pytest.LogCaptureFixture
) -> None:
    leases = [client.lock(name).acquire(timeout=5) for name in ("a", "b", "c")]
    way.errors["b"] = [lost(sent=True)]
    table = client._session.table
    with caplog.at_level(logging.INFO, "lockfast"):
        now = client._session.runtime.now()
        with table._lock:  # so that the heart finds all of them
            for claim in table.all():
                table.leave(claim, now)
        wait_until(lambda: not table._by_id, "all are resigned")
    asked = [name for names in way.asked for name in names]
    assert sorted(asked) == ["a", "b", "b", "c"]
    assert "the release of 1 of 3 locks" in caplog.text
    assert len(leases) == 3


def test_a_closed_client_names_only_what_has_failed(
    client: Client, way: Partly, caplog: pytest.LogCaptureFixture
) -> None:
    leases = [client.lock(name).acquire(timeout=5) for name in ("first", "other")]
    way.errors["other"] = [EngineRefused("refused by the test")] * 100
    with caplog.at_level(logging.WARNING, "lockfast"):
        client.close()
    assert "'other'" in caplog.text
    assert "'first'" not in caplog.text
    assert len(leases) == 2


def test_a_closed_client_names_no_token_of_a_request_that_was_never_answered(
    client: Client, way: Partly, caplog: pytest.LogCaptureFixture
) -> None:
    way.errors["x"] = [EngineRefused("refused by the test")] * 100
    way.cut = True
    with pytest.raises(EngineUnavailable):
        client.lock("x").acquire(timeout=0.2)
    client.close()
    (said,) = [r.getMessage() for r in caplog.records if "was closed" in r.getMessage()]
    assert "the release: 'x' may stay taken" in said
