"""`at_most`: which values it takes, for which locks it counts, and from when."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

import lockfast
from lockfast.errors import Loss
from lockfast.port import Ask, Standing
from lockfast.runtime.base import now

TTL = 0.6


@pytest.fixture
def client() -> Iterator[lockfast.Client]:
    with lockfast.connect("memory://") as client:
        yield client


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan")])
def test_it_is_above_zero(client: lockfast.Client, wrong: float) -> None:
    makers: list[Callable[..., object]] = [client.lock, client.rlock, client.lock_all]
    for make in [*makers, client.election]:
        with pytest.raises(ValueError, match="at_most"):
            make("x", at_most=wrong)
    with pytest.raises(ValueError, match="at_most"):
        client.semaphore("x", 2, at_most=wrong)
    with pytest.raises(ValueError, match="at_most"):
        client.rwlock("x", at_most=wrong).read()


@pytest.mark.parametrize("wrong", [True, "5"])
def test_it_is_a_number(client: lockfast.Client, wrong: float) -> None:
    with pytest.raises(TypeError, match="at_most"):
        client.lock("x", at_most=wrong)


def test_it_is_not_shorter_than_at_least(client: lockfast.Client) -> None:
    with pytest.raises(ValueError, match="at_least=10 must not be longer than at_most=5"):
        client.lock("x", at_least=10, at_most=5)
    client.lock("x", at_least=5, at_most=5)


def test_it_counts_for_readers_and_permits(client: lockfast.Client) -> None:
    locks = client.rwlock("x", ttl=TTL, at_most=0.1)
    for lock in (locks.read(), locks.write(), client.semaphore("y", 2, ttl=TTL, at_most=0.1)):
        lease = lock.acquire()
        assert lease.wait_lost(5.0)
        assert lease.loss is Loss.AT_MOST


def test_it_counts_for_a_decorated_function(client: lockfast.Client) -> None:
    @client.lock("x:{n}", ttl=TTL, at_most=0.1)
    def work(n: int) -> int:
        time.sleep(0.1 + TTL)
        return n

    with pytest.raises(lockfast.LeaseLost, match="at_most"):
        work(1)


def test_it_is_counted_from_the_grant_not_from_the_request(client: lockfast.Client) -> None:
    first = client.lock("x", ttl=30).acquire()
    threading.Timer(0.3, first.release).start()
    states = []
    with client.lock("x", ttl=30, timeout=5, at_most=0.25) as lease:
        states.append(lease.state)
        time.sleep(0.26)
        states.append(lease.state)
        lease.ensure_held()
    assert states == [lockfast.State.HELD, lockfast.State.JEOPARDY]


def test_no_renewal_is_sent_after_it(client: lockfast.Client) -> None:
    """The second chunk of renewals is due in time, and is sent later, when the first has ended."""
    client.lock("any").acquire().release()  # which makes the engine
    engine, table = client._session.engine, client._session.table
    renew, sent = engine.renew, []

    async def slow(asks: Sequence[Ask], deadline: float) -> list[Standing | Exception | None]:
        claims = [claim for ask in asks if (claim := table.get(ask.id)) is not None]
        sent.append(min(claim.limit for claim in claims) - now())
        time.sleep(0.2)  # noqa: ASYNC251  # a thread drives it
        return await renew(asks, deadline)

    engine.renew = slow  # type: ignore[method-assign]
    # Renewals are due a third of the ttl after the request, so just before `at_most` is over.
    leases = [client.lock(f"x{n}", ttl=1.5, at_most=0.55).acquire() for n in range(200)]
    for lease in leases:
        assert lease.wait_lost(5.0)
        assert lease.loss is Loss.AT_MOST
    assert sent
    assert min(sent) > -0.08  # without the rule it is 0.15 s late
