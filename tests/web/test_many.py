"""Many locks: nobody waits for long while they are read, sorted and searched."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import pytest

from lockfast.port import Ask, Entry, Kind, Page
from lockfast.primitives.inspection import Pages
from lockfast.web import look as looking
from lockfast.web.claim import Queue
from lockfast.web.history import Gap
from lockfast.web.listing import PAGE, listing, wanted
from lockfast.web.look import RUN, TURN, Look, in_order, look
from lockfast.web.pages.overview import MOMENT
from tests.web.engines import dashboard, in_loop

MANY = 20_000
HELD = b'{"host": "h", "pid": 7, "service": "billing", "since": 1, "ttl": 30}'
FIRST = Entry("n", "0" * 32, 1, True, Kind.LOCK, 1, 1, 9.0, HELD)  # noqa: FBT003  # granted


class Client:
    """A client of an engine with many locks, in pages as large as they come."""

    def __init__(self) -> None:
        self._session = self
        self.engine = self
        self.pages = 0

    def enter(self) -> None:
        """Be ready."""

    async def inspect(self, names: str, cursor: str | None, *, exact: bool) -> Page:
        assert (names, exact) == ("", False)
        start = int(cursor or 0)
        numbers = range(start, min(start + MANY // 4, MANY))
        self.pages += 1
        entries = [FIRST._replace(name=f"n{each:06}", id=f"{each:032x}") for each in numbers]
        return Page(entries, str(numbers.stop) if numbers.stop < MANY else None)


async def turns(work: Awaitable[object]) -> int:
    """Return how often others got a turn of the loop while something was done."""
    task = asyncio.ensure_future(work)
    number = 0
    while not task.done():
        number += 1
        await asyncio.sleep(0)
    await task
    return number


@in_loop
async def test_a_scan_lets_others_run_and_keeps_what_has_not_changed() -> None:
    client = Client()
    first = await look(client, Look())  # type: ignore[arg-type]  # what a scan uses of a client
    assert client.pages == 4
    assert len(first.locks) == first.held == MANY
    second = await look(client, first)  # type: ignore[arg-type]  # the same
    assert not second.fresh
    assert all(second.locks[name] is lock for name, lock in first.locks.items())
    assert await turns(look(client, second)) > 3 * MANY // TURN  # type: ignore[arg-type]  # the same


@in_loop
async def test_searching_and_sorting_let_others_run() -> None:
    found = await look(Client(), Look())  # type: ignore[arg-type]  # what a scan uses of a client
    assert await turns(listing(found, wanted({"q": "n0000"}))) > MANY // TURN
    assert await turns(listing(found, wanted({"sort": "token"}))) > MANY // RUN
    page = await listing(found, wanted({"q": "n0000", "sort": "-name"}))
    assert (page.found, page.rows[0].name, len(page.rows)) == (100, "n000099", PAGE)
    await asyncio.gather(*(listing(found, wanted({"q": "N00001"})) for _ in range(50)))
    assert sum(key[0] == "n00001" for key in found.listed) == 1
    for number in range(100):
        await listing(found, wanted({"q": f"n0001{number}"}))
    assert len(found.listed) <= 16


@pytest.mark.parametrize("reverse", [False, True])
@in_loop
async def test_sorting_in_runs_is_sorting(*, reverse: bool) -> None:
    values = [(each * 7_919 % 3 * RUN, each) for each in range(3 * RUN)]
    expected = sorted(values, key=lambda each: each[0], reverse=reverse)
    assert await in_order(values, lambda each: each[0], reverse=reverse) == expected


@in_loop
async def test_what_is_too_much_is_left_out_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "MOST", 99)
    async with dashboard() as (client, visitor):
        leases = [await client.lock(f"n{number}", ttl=60).acquire() for number in range(250)]
        text = (await visitor.get("/")).text
        assert "the others are not shown" in text
        last = visitor.app._sources[""].reader.last
        assert last is not None
        assert 99 < len(last.claims) <= 200
        assert len(leases) == 250
        page = (await visitor.get("/lock", name=leases[-1].name)).text
        assert "the others are not shown" in page
        unseen = next(each.name for each in leases if each.name not in last.locks)
        page = (await visitor.get("/lock", name=unseen)).text
        assert "somebody may hold it" in page
        assert "Nobody holds this lock" not in page


@in_loop
async def test_locks_that_cannot_be_read_are_not_taken_for_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Locks of another version are on the engine: it returns their formats, and nothing else."""

    class Others(Pages):
        """Each page has them."""

        async def __anext__(self) -> Page:
            """Read the next page."""
            return (await super().__anext__())._replace(others=frozenset({99}))

    monkeypatch.setattr(looking, "Pages", Others)
    async with dashboard() as (_, visitor):
        text = (await visitor.get("/")).text
        assert "cannot read: 99" in text
        assert "No lock is held" not in text
        text = (await visitor.get("/lock", name="x")).text
        assert "cannot read: 99" in text
        assert "Nobody holds this lock" not in text


@in_loop
async def test_what_has_not_been_seen_has_a_reason_that_is_true() -> None:
    async with dashboard() as (_, visitor):
        await visitor.get("/")
        reader = visitor.app._sources[""].reader
        assert reader.fresh
        reader.history.gaps.append(Gap(1.0, 2.0))  # such as a minute without the engine
        await asyncio.sleep(MOMENT)
        text = (await visitor.get("/")).text
        assert "with 1 gap in which it saw nothing" in text
        assert "the engine did not answer" in text
        assert reader.last is not None
        reader.last.ended -= 100.0
        assert not reader.fresh


@in_loop
async def test_two_claims_on_a_name_are_a_queue() -> None:
    async with (
        dashboard() as (client, visitor),
        client.semaphore("pool", 3, ttl=60),
        client.semaphore("pool", 3, ttl=60),
    ):
        await visitor.get("/")
        last = visitor.app._sources[""].reader.last
        assert last is not None
        assert isinstance(last.locks["pool"], Queue)
        assert len(last.locks["pool"].holders) == 2


@in_loop
async def test_the_id_of_another_claim_hides_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each client of an engine chooses the ids of its claims, and can see those of the others."""
    async with dashboard() as (client, visitor), client.lock("theirs", ttl=60):
        (victim,) = await client.lock("theirs").holders()
        made = Ask.__init__

        def copied(self: Ask, _: str, *others: Any, **more: Any) -> None:  # noqa: ANN401  # passed on
            made(self, victim.id, *others, **more)

        with monkeypatch.context() as patch:
            patch.setattr(Ask, "__init__", copied)
            await client.lock("zzz", ttl=60).acquire()
        (other,) = await client.lock("zzz").holders()
        assert other.id == victim.id
        text = (await visitor.get("/")).text
        assert "theirs" in text
        assert "zzz" in text
        last = visitor.app._sources[""].reader.last
        assert last is not None
        again = await look(client, last)
        assert not again.fresh
        assert again.held == 2
