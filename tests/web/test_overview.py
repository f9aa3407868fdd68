"""The overview: what it shows of which locks, and that hostile texts are shown as text."""

from __future__ import annotations

import asyncio
import re

import pytest

from lockfast.plain import plain
from lockfast.web.listing import PAGE
from tests.web.engines import dashboard, in_loop, until
from tests.web.visitor import Parts, Visitor

HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "\x1b[2J\x1b[Hgone\r\nall is well\x07",
    "\u202etxt.exe",
    "{{ 7 * 7 }}{% raw %}",
    "x" * 512,
    "\N{HEBREW LETTER ALEF}\N{HEBREW LETTER BET}:1",
    "../../etc/passwd?a=b&c=d#e",
)


@in_loop
async def test_it_shows_who_holds_what_and_who_waits() -> None:
    async with dashboard() as (client, visitor):
        async with client.lock("invoice:42", ttl=20, purpose="nightly billing") as lease:
            waiting = asyncio.create_task(client.lock("invoice:42", ttl=20).acquire())

            async def shown() -> bool:
                return '<span class="count">1</span>' in (await visitor.get("/table")).text

            await until(shown)
            text = (await visitor.get("/")).text
            assert "invoice:42" in text
            assert "nightly billing" in text
            assert str(lease.token) in text
            assert "percent of the ttl left" in text
        await (await waiting).release()


async def found(visitor: Visitor, words: str) -> bool:
    """Return whether a search finds a lock."""
    return "data-key=" in (await visitor.get("/table", q=words)).text


@pytest.mark.parametrize("name", HOSTILE)
@in_loop
async def test_hostile_texts_are_text(name: str) -> None:
    async with dashboard() as (client, visitor):
        async with client.lock(name, ttl=10, purpose=name):
            text = (await visitor.get("/")).text
            assert await found(visitor, name[:200])
        assert not any(each in text for each in "\x1b\x07\r\u202e")
        parts = Parts(text)
        assert parts.isolated.count(plain(name)) == 1 + (len(name) <= 256)
        assert {"script", "img"} & set(parts.tags) <= {"script"}
        assert parts.tags.count("script") == 1


@in_loop
async def test_search_finds_names_services_and_hosts() -> None:
    async with dashboard() as (client, visitor), client.lock("Invoice:1"), client.lock("report"):
        who = (await client.lock("report").queue())[0].who
        only = (await visitor.get("/", q="iNVOICE")).text
        assert "Invoice:1" in only
        assert ">report<" not in only
        for words in (who.service, who.host.upper()):
            both = (await visitor.get("/", q=words)).text
            assert "Invoice:1" in both
            assert ">report<" in both
        assert "No lock has" in (await visitor.get("/", q="nothing like it")).text


@pytest.mark.parametrize(
    "column", ["name", "holder", "purpose", "token", "held", "left", "waiters"]
)
@in_loop
async def test_it_sorts_by_each_column_in_both_directions(column: str) -> None:
    async with dashboard() as (client, visitor):
        async with (
            client.lock("a", ttl=40, purpose="x"),
            client.lock("b", ttl=10, purpose="z"),
            client.lock("c", ttl=20, purpose="y"),
        ):
            orders = []
            for sort in (column, f"-{column}"):
                text = (await visitor.get("/", sort=sort)).text
                assert "aria-sort" in text
                places = {name: text.index(f'data-key="{name}"') for name in "abc"}
                orders.append("".join(sorted("abc", key=places.__getitem__)))
        expected = {
            "name": ["abc", "cba"],
            "purpose": ["acb", "bca"],
            "token": ["cba", "abc"],
            "left": ["bca", "acb"],
        }
        assert orders == expected.get(column, ["abc", "abc"])


@in_loop
async def test_a_full_page_is_small() -> None:
    async with dashboard() as (client, visitor):
        leases = [
            await client.lock(f"n{number:03}", ttl=60, purpose="monthly invoices").acquire()
            for number in range(250)
        ]
        first = (await visitor.get("/", sort="name")).text
        assert first.count("data-key=") == PAGE
        assert "250 locks" in first
        links = re.findall(r'="(/static/[^"]+)"', first)
        others = [(await visitor.get(link)).text for link in links]
        assert len(others) == 3
        assert sum(len(each.encode()) for each in (first, *others)) < 100_000
        last = (await visitor.get("/", sort="name", page=-(-250 // PAGE))).text
        assert last.count("data-key=") == 250 % PAGE
        assert 'data-key="n249"' in last
        beyond = (await visitor.get("/", sort="name", page=999_999)).text
        assert 'data-key="n249"' in beyond
        assert len(leases) == 250


@in_loop
async def test_many_viewers_cost_one_scan() -> None:
    async with dashboard() as (client, visitor), client.lock("one", ttl=30):
        await asyncio.gather(*(visitor.get("/") for _ in range(200)))
        reader = visitor.app._sources[""].reader
        assert reader.scans == 1
        assert reader.last is not None
        number = reader.last.number
        texts = await asyncio.gather(*(visitor.get("/table", after=number) for _ in range(200)))
        assert reader.scans == 2
        assert all(f'data-look="{number + 1}"' in each.text for each in texts)


@in_loop
async def test_nobody_looks_so_nothing_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lockfast.web.reader.IDLE", 0.2)
    async with dashboard() as (_, visitor):
        await visitor.get("/")
        reader = visitor.app._sources[""].reader

        async def stopped() -> bool:
            return reader._task is not None and reader._task.done()

        await until(stopped)
        scans = reader.scans
        await asyncio.sleep(0.7)
        assert reader.scans == scans
        assert reader.last is not None
        await visitor.get("/table", after=reader.last.number)
        assert reader.scans > scans


@in_loop
async def test_a_page_of_an_engine_that_is_away_says_so() -> None:
    async with dashboard("redis://127.0.0.1:1") as (_, visitor):
        text = (await visitor.get("/")).text
        assert "The engine does not answer" in text
        assert "No scan is complete yet" in text
