"""The health of engines, and several of them side by side."""

from __future__ import annotations

from pathlib import Path

import lockfast.web
from lockfast.aio import connect
from tests.servers.redis import Redis
from tests.web.engines import dashboard, in_loop, until
from tests.web.visitor import Visitor


def test_the_findings_of_a_live_server_are_shown() -> None:
    with Redis() as redis:
        findings_of(redis.url)


@in_loop
async def findings_of(url: str) -> None:
    async with dashboard(url) as (client, visitor):
        text = (await visitor.get("/health")).text
        found = await client.guarantees()
        assert found.findings
        assert found.level.name.lower() in text
        for finding in found.findings:
            assert finding.setting.partition(" ")[0] in text


@in_loop
async def test_an_engine_without_findings() -> None:
    async with dashboard() as (_, visitor):
        assert "No setting needs to be changed" in (await visitor.get("/health")).text


@in_loop
async def test_an_engine_that_is_away() -> None:
    async with dashboard("redis://127.0.0.1:1") as (_, visitor):
        got = await visitor.get("/health")
        assert got.status == 200
        assert "cannot be read" in got.text


def test_several_engines_side_by_side(tmp_path: Path) -> None:
    with Redis() as redis:
        side_by_side(redis.url, f"sqlite:///{tmp_path}/locks.db")


@in_loop
async def side_by_side(redis: str, sqlite: str) -> None:
    app = lockfast.web.app({"fast": redis, "small": sqlite})
    visitor = Visitor(app, root="/locks")
    try:
        async with (
            connect(redis) as one,
            connect(sqlite) as other,
            one.lock("in-redis", ttl=20),
            other.lock("in-sqlite", ttl=20),
        ):
            first = (await visitor.get("/")).text
            assert 'href="/locks/fast/"' in first
            assert 'href="/locks/small/"' in first
            fast, small = (
                (await visitor.get("/fast/")).text,
                (await visitor.get("/small/")).text,
            )
            assert "in-redis" in fast
            assert "in-sqlite" not in fast
            assert 'href="/locks/small/lock?name=in-sqlite"' in small
            assert (await visitor.get("/small")).headers["location"] == "/locks/small/"
            assert (await visitor.get("/none/")).status == 404
            assert (await visitor.get("/health")).status == 404
            lost = await visitor.get("/small/healt")  # the page leads back to the others
            assert (lost.status, "No such page" in lost.text) == (404, True)
            assert 'href="/locks/small/"' in lost.text
            assert (await visitor.get("/small/health")).status == 200
    finally:
        await app.close()


def test_an_engine_that_dies_leaves_its_last_scan() -> None:
    with Redis() as redis:
        dies(redis)


@in_loop
async def dies(redis: Redis) -> None:
    async with dashboard(redis.url) as (client, visitor):
        await client.lock("one", ttl=60).acquire()
        assert "data-key" in (await visitor.get("/")).text
        redis.kill()

        async def told() -> bool:
            return "does not answer" in (await visitor.get("/table")).text

        await until(told)
        text = (await visitor.get("/table")).text
        assert 'data-key="one"' in text
        assert "Scan of" in text
        redis.start()

        async def back() -> bool:
            return "does not answer" not in (await visitor.get("/table")).text

        await until(back)
