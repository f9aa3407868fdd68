"""The page of one lock: its queue in order, its permits, readers and leader, and its breaks."""

from __future__ import annotations

import asyncio

import pytest

from tests.web.engines import dashboard, in_loop, until
from tests.web.visitor import Parts


@in_loop
async def test_the_queue_is_in_order_with_who_and_why() -> None:
    async with dashboard() as (client, visitor):
        async with client.lock("one", ttl=20, purpose="the holder"):
            waiting = []
            for number in range(3):
                lock = client.lock("one", ttl=20, purpose=f"waiter {number}")
                waiting.append(asyncio.create_task(lock.acquire()))

                async def queued(number: int = number) -> bool:
                    return len(await client.lock("one").queue()) == number + 2

                await until(queued)

            async def shown() -> bool:
                return "waiter 2" in (await visitor.get("/lock", name="one")).text

            await until(shown)
            text = (await visitor.get("/lock", name="one")).text
            places = [
                text.index(words) for words in ("the holder", *(f"waiter {n}" for n in "012"))
            ]
            assert places == sorted(places)
            who = (await client.lock("one").queue())[1].who
            assert who.host in text
            assert f"pid {who.pid}" in text
        for each in waiting:
            await (await each).release()


@in_loop
async def test_permits_readers_and_leaders() -> None:
    async with dashboard() as (client, visitor):
        async with (
            client.semaphore("pool", 5, ttl=20),
            client.semaphore("pool", 5, ttl=20),
            client.rwlock("catalog", ttl=20).read(),
            client.election("chief", ttl=20).campaign("10.0.0.5:8000"),
        ):
            pool = (await visitor.get("/lock", name="pool")).text
            assert "2 of 5" in pool
            assert pool.count('class="taken"') == 2
            assert pool.count('class="free"') == 3
            catalog = (await visitor.get("/lock", name="catalog")).text
            assert "Readers" in catalog
            chief = (await visitor.get("/lock", name="chief")).text
            assert "The leader publishes" in chief
            assert "10.0.0.5:8000" in chief
            table = (await visitor.get("/table")).text
            assert "2/5" in table
            assert "1 reading" in table
        async with client.rwlock("catalog", ttl=20).write():

            async def writes() -> bool:
                return "Writer" in (await visitor.get("/lock", name="catalog")).text

            await until(writes)


@in_loop
async def test_hostile_values_are_text() -> None:
    value = "<img src=x onerror=alert(1)>\x1b[2J\u202e"
    async with dashboard() as (client, visitor), client.election("x", ttl=9).campaign(value):
        text = (await visitor.get("/lock", name="x")).text
        assert "img" not in Parts(text).tags
        assert "\u202e" not in text
        assert "\x1b" not in text


@pytest.mark.parametrize("query", ["", "name=", "name=" + "x" * 513, "name=%ed%a0%80"])
@in_loop
async def test_names_are_checked(query: str) -> None:
    async with dashboard() as (_, visitor):
        assert (await visitor.send("GET", "/lock", query=query)).status == 400


@in_loop
async def test_a_lock_that_nobody_holds() -> None:
    async with dashboard() as (_, visitor):
        got = await visitor.get("/lock", name="<free>")
        assert got.status == 200
        assert "Nobody holds this lock" in got.text
        assert "&lt;free&gt;" in got.text
