"""The client's contract on an event loop that is blocked: another thread renews its leases."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from lockfast.blocking.client import Client
from lockfast.core.validity import State
from lockfast.errors import LeaseLost, Loss
from lockfast.testing.contract.client.times import LONG, SLACK
from lockfast.testing.harness.mode import Threaded
from lockfast.testing.harness.stage import Contract, Stage, driven, only
from lockfast.testing.harness.verbs import AnyClient, AnyLease, AnyLock, AnyRLease, acquire, release

TURNS = 3.0  # ttls for which the loop is blocked
BLOCKED = re.compile(r"the event loop was blocked for ([\d.]+) s or more\. .*: (.*)\. Find")
Tried = list[object]


@contextmanager
def rival(stage: Stage, *choose: Callable[[AnyClient], AnyLock]) -> Iterator[Tried]:
    """Try to acquire locks again and again, in a thread with a client of its own.

    Yield the list of the results: an error or a lease for what should not have been, else None.
    """
    tried: Tried = []
    over = threading.Event()

    def run() -> None:
        client = stage.bench.client(Threaded())
        assert isinstance(client, Client)
        with client:
            locks = [each(client) for each in choose]
            while not over.is_set():
                try:
                    tried.extend(lock.try_acquire() for lock in locks)
                except Exception as error:  # noqa: BLE001  # the test finds it in the list
                    tried.append(error)
                time.sleep(0.01)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield tried
    finally:
        over.set()
        thread.join(SLACK)


def warnings(caplog: pytest.LogCaptureFixture) -> list[tuple[float, str]]:
    """Return the seconds and the names of each warning that the loop was blocked."""
    found = [BLOCKED.match(each.getMessage()) for each in caplog.records]
    return [(float(each[1]), each[2]) for each in found if each]


async def blocked(
    stage: Stage,
    leases: Sequence[AnyLease | AnyRLease],
    ttl: float,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Block the loop. All leases are held afterwards, and one warning says for how long it was."""
    tickets = [lease.ticket for lease in leases]
    began = time.monotonic()
    time.sleep(TURNS * ttl)  # noqa: ASYNC251  # as a careless coroutine does
    states, took = [lease.state for lease in leases], time.monotonic() - began
    assert states == [State.HELD] * len(leases)
    for lease in leases:
        lease.ensure_held()
    await stage.mode.until(lambda: bool(warnings(caplog)), "the warning", SLACK)
    await stage.mode.sleep(ttl / 2.0)
    ((seconds, names),) = warnings(caplog)
    assert took - ttl / 2.0 < seconds < took + SLACK
    for lease in leases:
        assert f"{lease.name!r} (" in names
    assert [lease.ticket for lease in leases] == tickets
    assert "stumbled" not in caplog.text
    assert "jeopardy" not in caplog.text


def expect_stand_in(client: AnyClient) -> None:
    """Skip the test if the engine has no stand-in, which the port does not demand."""
    if not hasattr(client._session.engine, "stand_in"):  # noqa: SLF001  # no other way to ask
        pytest.skip("this engine has no stand-in")


class BlockedLoopContract(Contract):
    """A coroutine that blocks the event loop costs no lease."""

    @only("asyncio")
    @driven
    async def test_what_is_held_is_kept_while_the_loop_is_blocked_for_three_ttls(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        client, ttl = stage.client(), 2.0 * stage.brief
        leases: list[AnyLease | AnyRLease] = [await acquire(client.lock("x", ttl=ttl), SLACK)]
        expect_stand_in(client)
        leases.append(await acquire(client.rlock("y", ttl=ttl), SLACK))
        tokens = [lease.token for lease in leases]
        brief = await acquire(client.lock("z", ttl=ttl, at_most=ttl / 2.0), SLACK)
        called: list[threading.Thread] = []
        brief.on_lost(lambda: called.append(threading.current_thread()))
        with (
            caplog.at_level(logging.WARNING, "lockfast"),
            rival(stage, *(lambda each, n=n: each.lock(n, ttl=LONG) for n in "xy")) as tried,
        ):
            await stage.mode.until(lambda: len(tried) > 1, "the rival has tried", SLACK)
            await blocked(stage, leases, ttl, caplog)
        assert set(tried) == {None}
        assert tokens == [lease.token for lease in leases]
        assert (brief.state, brief.loss) == (State.LOST, Loss.AT_MOST)
        await stage.mode.until(lambda: bool(called), "on_lost was called", SLACK)
        assert called == [threading.current_thread()]
        for lease in leases:
            await release(lease)
        await release(await acquire(stage.client().lock("z", ttl=LONG), SLACK))

    @only("asyncio")
    @driven
    async def test_a_lease_that_is_broken_while_the_loop_is_blocked_is_lost_at_once(
        self, stage: Stage
    ) -> None:
        client, ttl = stage.client(), 2.0 * stage.brief
        lease = await acquire(client.lock("x", ttl=ttl), SLACK)
        expect_stand_in(client)
        called: list[threading.Thread] = []
        lease.on_lost(lambda: called.append(threading.current_thread()))
        operator = stage.bench.client(Threaded())
        assert isinstance(operator, Client)

        def remove() -> None:
            time.sleep(ttl)
            with operator:
                (holder,) = operator.lock("x").holders()
                operator.revoke(holder, "the test")

        thread = threading.Thread(target=remove)
        thread.start()
        time.sleep(TURNS * ttl)  # noqa: ASYNC251  # as a careless coroutine does
        assert (lease.state, lease.loss) == (State.LOST, Loss.GONE)
        assert called == []  # callbacks belong to the loop
        thread.join(SLACK)
        await stage.mode.until(lambda: bool(called), "on_lost was called", SLACK)
        assert called == [threading.current_thread()]
        with pytest.raises(LeaseLost):
            await release(lease)


class BlockedSharedContract(Contract):
    """The same for locks that need a capacity above 1."""

    @only("asyncio")
    @driven
    async def test_a_writer_a_reader_and_a_permit_are_kept_while_the_loop_is_blocked(
        self, stage: Stage, caplog: pytest.LogCaptureFixture
    ) -> None:
        client, ttl = stage.client(), 2.0 * stage.brief
        chosen: tuple[Callable[[AnyClient], AnyLock], ...] = (
            lambda each: each.rwlock("w", ttl=ttl).write(),
            lambda each: each.rwlock("r", ttl=ttl).read(),
            lambda each: each.semaphore("s", 1, ttl=ttl),
        )
        leases = [await acquire(each(client), SLACK) for each in chosen]
        expect_stand_in(client)
        barred: tuple[Callable[[AnyClient], AnyLock], ...] = (
            lambda each: each.rwlock("w", ttl=ttl).read(),
            lambda each: each.rwlock("r", ttl=ttl).write(),
            lambda each: each.semaphore("s", 1, ttl=ttl),
        )
        with caplog.at_level(logging.WARNING, "lockfast"), rival(stage, *barred) as tried:
            await stage.mode.until(lambda: len(tried) > 1, "the rival has tried", SLACK)
            await blocked(stage, leases, ttl, caplog)
        assert set(tried) == {None}
        for lease in leases:
            await release(lease)
