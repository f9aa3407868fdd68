"""The guard for SQLAlchemy's AsyncSession on SQLite, over aiosqlite."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import InvalidRequestError, OperationalError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

import lockfast
from lockfast import StaleToken, State, Unguarded
from lockfast.guards import sqlalchemy as guard
from tests.guards import story
from tests.guards.database import lease, usurped
from tests.guards.registers.sqlalchemy import AsyncMapper, Base, Row


@pytest.fixture
def where(tmp_path: Path) -> str:
    return f"sqlite+aiosqlite:///{tmp_path}/data.db"


@asynccontextmanager
async def database(where: str, timeout: float = 5.0) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(where, connect_args={"timeout": timeout})
    try:
        async with engine.begin() as connection:
            await connection.run_sync(Base.metadata.create_all)
            await connection.run_sync(guard.install)
            await connection.execute(text("INSERT OR IGNORE INTO register VALUES (1, 'none')"))
        yield engine
    finally:
        await engine.dispose()


async def prepare(where: str) -> None:
    async with database(where):
        pass


async def value(engine: AsyncEngine) -> str:
    async with AsyncSession(engine) as session:
        return (await session.get_one(Row, 1)).value


def test_a_holder_that_was_paused_is_refused_and_the_next_ones_value_stands(
    tmp_path: Path, where: str
) -> None:
    asyncio.run(prepare(where))
    story.refused(f"sqlite:///{tmp_path}/locks.db", AsyncMapper, where, "aiosqlite")


def test_with_the_guard_switched_off_the_paused_holder_overwrites(
    tmp_path: Path, where: str
) -> None:
    asyncio.run(prepare(where))
    story.corrupted(f"sqlite:///{tmp_path}/locks.db", AsyncMapper, where, "aiosqlite, bare")


def test_a_refusal_makes_the_lease_lost_and_leaves_the_session_usable(
    where: str, client: lockfast.Client
) -> None:
    async def play() -> None:
        stale, fresh = usurped(client, "session")
        async with database(where) as engine, AsyncSession(engine) as session:
            await guard.async_seal(session, fresh)
            with pytest.raises(StaleToken) as caught:
                async with guard.async_transaction(session, stale):
                    pytest.fail("it was let in")
            assert caught.value.current == fresh.token
            assert stale.state is State.LOST
            with pytest.raises(StaleToken):
                await guard.async_seal(session, stale)
            for number in range(3):
                async with guard.async_transaction(session, fresh) as same:
                    assert same is session
                    (await session.get_one(Row, 1)).value = f"session {number}"
            assert await value(engine) == "session 2"

    asyncio.run(play())


def test_an_error_and_a_cancellation_roll_back(where: str, client: lockfast.Client) -> None:
    async def play() -> None:
        held = lease(client, "rollback")
        async with database(where) as engine:
            written = asyncio.Event()

            async def write(error: Exception | None) -> None:
                async with (
                    AsyncSession(engine) as session,
                    guard.async_transaction(session, held),
                ):
                    (await session.get_one(Row, 1)).value = "never"
                    await session.flush()
                    if error is not None:
                        raise error
                    written.set()
                    await asyncio.sleep(60)

            with pytest.raises(ZeroDivisionError):
                await write(ZeroDivisionError())
            assert await value(engine) == "none"
            task = asyncio.create_task(write(None))
            await written.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            async with AsyncSession(engine) as session, guard.async_transaction(session, held):
                assert (await session.get_one(Row, 1)).value == "none"

    asyncio.run(play())


async def _by_session(session: AsyncSession) -> None:
    await session.commit()


async def _by_rollback(session: AsyncSession) -> None:
    await session.rollback()


async def _by_connection(session: AsyncSession) -> None:
    await (await session.connection()).commit()


async def _by_text(session: AsyncSession) -> None:
    await session.execute(text("COMMIT"))


async def _by_driver(session: AsyncSession) -> None:
    raw = await (await session.connection()).get_raw_connection()
    assert raw.driver_connection is not None
    await raw.driver_connection.commit()


async def _by_script(session: AsyncSession) -> None:
    raw = await (await session.connection()).get_raw_connection()
    assert raw.driver_connection is not None
    # It commits before it begins.
    await raw.driver_connection.executescript("BEGIN; UPDATE register SET value = 'stale'")


ENDINGS = [_by_session, _by_rollback, _by_connection, _by_text, _by_driver, _by_script]


@pytest.mark.parametrize("end", ENDINGS)
@pytest.mark.parametrize("more", [False, True])
def test_work_behind_a_commit_in_the_block_is_refused(
    where: str,
    client: lockfast.Client,
    *,
    end: Callable[[AsyncSession], Awaitable[None]],
    more: bool,
) -> None:
    async def play() -> None:
        held = lease(client, "ended")
        async with database(where) as engine, AsyncSession(engine) as session:
            with pytest.raises((InvalidRequestError, Unguarded)):
                async with guard.async_transaction(session, held):
                    await session.execute(text("SELECT 1"))
                    await end(session)
                    if more:
                        await session.execute(text("UPDATE register SET value = 'stale'"))
            await session.rollback()
            assert await value(engine) == "none"
            async with guard.async_transaction(session, held):  # it is as before
                (await session.get_one(Row, 1)).value = "fresh"
            assert await value(engine) == "fresh"

    asyncio.run(play())


def test_while_a_guarded_transaction_is_open_nobody_else_writes(
    where: str, client: lockfast.Client
) -> None:
    async def play() -> None:
        stale, fresh = usurped(client, "open")
        async with (
            database(where, timeout=0.1) as engine,
            AsyncSession(engine) as session,
            AsyncSession(engine) as other,
        ):
            async with guard.async_transaction(session, stale):
                (await session.get_one(Row, 1)).value = "first"
                await session.flush()
                with pytest.raises(OperationalError, match="locked"):
                    await guard.async_seal(other, fresh)
            await guard.async_seal(other, fresh)
            with pytest.raises(StaleToken):
                async with guard.async_transaction(session, stale):
                    pytest.fail("it was let in")
            assert await value(engine) == "first"

    asyncio.run(play())


def test_a_database_without_marks_and_one_in_autocommit_are_refused(
    tmp_path: Path, where: str, client: lockfast.Client
) -> None:
    async def play() -> None:
        held = lease(client, "missing")
        bare = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/bare.db")
        async with AsyncSession(bare) as session:
            with pytest.raises(Unguarded, match="install"):
                await guard.async_seal(session, held)
        await bare.dispose()
        async with database(where) as engine:
            loose = engine.execution_options(isolation_level="AUTOCOMMIT")
            async with AsyncSession(loose) as session:
                with pytest.raises(InvalidRequestError, match="AUTOCOMMIT"):
                    async with guard.async_transaction(session, held):
                        pytest.fail("it was let in")

    asyncio.run(play())
