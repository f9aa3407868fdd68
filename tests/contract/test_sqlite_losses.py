"""A SQLite file that is deleted or replaced in use, and claims of another format or program."""

from __future__ import annotations

import shutil
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

import lockfast
from lockfast import EngineRefused, EngineUnavailable, LeaseLost, Loss
from lockfast.core.record import FORMAT
from lockfast.port import Standing
from lockfast.testing import Stage
from tests.contract.benches import SqliteBench

SIDES = ("", "-wal", "-shm")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks.db"


@pytest.fixture
def bench(tmp_path: Path) -> SqliteBench:
    return SqliteBench(tmp_path)


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def path_of(stage: Stage) -> Path:
    assert isinstance(stage.bench, SqliteBench)
    return Path(stage.bench.url.removeprefix("sqlite:///"))


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)


def lose(path: Path, how: str) -> None:
    if how == "replaced":
        copy = path.with_name("copy")
        shutil.copy(path, copy)
        copy.rename(path)
    elif how == "moved":
        path.rename(path.with_name("elsewhere"))
    elif how == "all":
        for side in SIDES:
            Path(f"{path}{side}").unlink()
    else:
        Path(f"{path}{how}").unlink()


@pytest.mark.parametrize("how", ["", "all", "moved"])
def test_the_holder_of_a_lock_in_a_file_that_is_gone_has_lost_it(path: Path, how: str) -> None:
    with lockfast.connect(url(path)) as client, lockfast.connect(url(path)) as other:
        lease = client.lock("x", ttl=6).acquire()
        lose(path, how)
        began = time.monotonic()
        while lease.loss is None:
            assert time.monotonic() - began < 10
            time.sleep(0.01)
        assert lease.loss is Loss.GONE
        with pytest.raises(LeaseLost):
            lease.release()
        later = other.lock("x", ttl=3).acquire(timeout=5)
        assert later.token > lease.token
        later.release()


@pytest.mark.parametrize("how", ["", "-wal", "-shm", "all", "replaced"])
def test_an_operation_on_a_file_that_is_gone_fails_in_words(path: Path, how: str) -> None:
    with lockfast.connect(url(path)) as client:
        lease = client.lock("x", ttl=60).acquire()
        session = client._session
        lose(path, how)
        ask = session.table.all()[0].ask
        time.sleep(0.03)  # a check of the file counts for 20 ms
        with pytest.raises(EngineUnavailable, match="deleted or replaced") as caught:
            session.engine.renew([ask], session.runtime.now() + 1).send(None)
        assert caught.value.sent is False
        del lease


def test_a_name_of_another_format_is_refused_and_its_claims_are_left_alone(stage: Stage) -> None:
    async def play() -> None:
        actor, other = stage.actor(), stage.actor()
        theirs, ours = actor.ask("theirs", ttl=2), actor.ask("ours", ttl=30)
        waiter = actor.ask("theirs", ttl=4)
        await actor.claim(theirs)
        await actor.claim(waiter)
        await actor.claim(ours)
        path = path_of(stage)
        change(path, "UPDATE queue SET format = 7 WHERE name = CAST('theirs' AS BLOB)")
        before = rows(path)
        both = rf"format 7.*format {FORMAT}"
        with pytest.raises(EngineRefused, match=both):
            await other.claim(other.ask("theirs"))
        (found,) = await actor.renew(theirs)
        assert isinstance(found, EngineRefused)
        assert await actor.resign(theirs, doubt=False) == [False]
        with pytest.raises(EngineRefused, match=both):
            await other.entries("theirs")
        page = await other.engine.inspect("", None, exact=False)
        assert [entry.id for entry in page.entries] == [ours.id]
        assert page.others == {7}
        assert rows(path) == before
        (mine,) = await actor.renew(ours)
        assert isinstance(mine, Standing)
        await stage.mode.sleep(2.1)  # the claims of the other format end like all others
        with pytest.raises(EngineRefused, match=both):
            await other.claim(other.ask("theirs"))
        (left,) = rows(path)
        assert left[0] == waiter.id
        assert left[3] == 1  # it is not granted: its weight and capacity may mean something else
        await stage.mode.sleep(2.1)
        assert (await other.claim(other.ask("theirs"))).granted

    stage.mode.run(play())


def rows(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        sql = "SELECT * FROM claim WHERE name = CAST('theirs' AS BLOB) ORDER BY id"
        return connection.execute(sql).fetchall()


HOLDERS = "DELETE FROM claim WHERE waits = 0"
WAITERS = "DELETE FROM claim WHERE waits = 1"


@pytest.mark.parametrize("sql", [HOLDERS, WAITERS, "DELETE FROM claim"])
def test_claims_that_another_program_has_deleted_block_nobody(stage: Stage, sql: str) -> None:
    async def play() -> None:
        actor = stage.actor()
        holder, first, second = (actor.ask(ttl=60) for _ in range(3))
        for ask in (holder, first, second):
            await actor.claim(ask)
        change(path_of(stage), sql)
        found = await actor.renew(holder, first, second)
        granted = [each and isinstance(each, Standing) and each.granted for each in found]
        expected: dict[str, list[bool | None]] = {
            HOLDERS: [None, True, False],
            WAITERS: [True, None, None],
        }
        assert granted == expected.get(sql, [None] * 3)
        await actor.resign(holder, first, second)
        assert (await actor.claim(actor.ask())).granted

    stage.mode.run(play())


@pytest.mark.parametrize(("size", "read"), [(65_536, 65_536), (65_537, 0)])
def test_a_payload_that_another_program_has_made_too_large_is_not_read(
    stage: Stage, size: int, read: int
) -> None:
    async def play() -> None:
        actor, other = stage.actor(), stage.actor()
        await actor.claim(actor.ask(ttl=60))
        change(path_of(stage), f"UPDATE claim SET payload = zeroblob({size})")  # noqa: S608  # ours
        standing = await other.claim(other.ask(ttl=60))
        assert standing.blocker is not None
        assert len(standing.blocker.payload) == read
        tried = await other.claim(other.ask(ttl=60, queue=False))
        assert tried.blocker is not None
        assert len(tried.blocker.payload) == read
        holder, _ = await other.entries("x")
        assert len(holder.payload) == read
        page = await other.engine.inspect("", None, exact=False)
        assert len(page.entries[0].payload) == read

    stage.mode.run(play())
