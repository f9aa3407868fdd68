"""The work of a leader in an app: begun, cancelled, begun anew when it failed, and ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from starlette.applications import Starlette

from lockfast import aio
from lockfast.aio import AsyncLease
from lockfast.integrations import starlette
from lockfast.integrations.starlette import leading

Said = asyncio.Queue[str]


def run(
    work: Callable[[AsyncLease, Said], Coroutine[Any, Any, None]],
    body: Callable[[Starlette, Said], Coroutine[Any, Any, None]],
) -> None:
    """Run an app whose leader does `work`, while `body` looks on."""

    async def main() -> None:
        app, said = Starlette(), Said()
        async with asyncio.timeout(20), aio.connect("memory://") as client:
            election = client.election("work", ttl=5)
            async with leading(app, election, lambda lease: work(lease, said), value="here"):
                await body(app, said)
            assert app.state.leader.lease is None
            assert await election.leader() is None

    asyncio.run(main())


async def for_ever(lease: AsyncLease, said: Said) -> None:
    said.put_nowait(f"began {lease.token}")
    try:
        await asyncio.sleep(3600)
    finally:
        said.put_nowait("cancelled")


def test_the_work_runs_while_the_app_leads_and_is_cancelled_at_the_end() -> None:
    kept: list[Said] = []

    async def body(app: Starlette, said: Said) -> None:
        kept.append(said)
        assert await said.get() == f"began {app.state.leader.lease.token}"

    run(for_ever, body)
    assert kept[0].get_nowait() == "cancelled"


def test_work_that_swallows_a_cancellation_is_cancelled_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(starlette, "AGAIN", 0.05)
    kept: list[Said] = []

    async def stubborn(lease: AsyncLease, said: Said) -> None:
        try:
            await for_ever(lease, said)
        except asyncio.CancelledError:
            await for_ever(lease, said)  # as if nothing had happened

    async def body(_: Starlette, said: Said) -> None:
        kept.append(said)
        await said.get()

    run(stubborn, body)
    assert [kept[0].get_nowait()[:5] for _ in range(3)] == ["cance", "began", "cance"]


def test_a_leader_that_is_deposed_stops_and_begins_anew_in_a_later_term() -> None:
    async def body(app: Starlette, said: Said) -> None:
        first = await said.get()
        app.state.leader.lease.fenced()
        assert await said.get() == "cancelled"
        assert await said.get() > first

    run(for_ever, body)


def test_work_that_failed_gives_the_leadership_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(starlette, "PAUSE", 0.01)

    async def work(lease: AsyncLease, said: Said) -> None:
        said.put_nowait(str(lease.token))
        raise ZeroDivisionError

    async def body(_: Starlette, said: Said) -> None:
        assert await said.get() < await said.get()

    run(work, body)
    assert "the work of the leader of 'work' failed" in caplog.text


def test_work_that_notices_the_loss_first_has_not_failed(caplog: pytest.LogCaptureFixture) -> None:
    async def work(lease: AsyncLease, said: Said) -> None:
        said.put_nowait(str(lease.token))
        while True:
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                lease.ensure_held()
                raise

    async def body(app: Starlette, said: Said) -> None:
        first = await said.get()
        app.state.leader.lease.fenced()
        assert await said.get() > first

    run(work, body)
    assert "failed" not in caplog.text


def test_work_that_is_done_is_not_done_again() -> None:
    async def work(lease: AsyncLease, said: Said) -> None:
        said.put_nowait(str(lease.token))

    async def body(app: Starlette, said: Said) -> None:
        term = await said.get()
        await asyncio.sleep(0.05)
        assert said.empty()
        assert str(app.state.leader.lease.token) == term

    run(work, body)
