"""The guard for SQLAlchemy: a Session's transaction, in both modes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidRequestError, OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import lockfast
from lockfast import LeaseLost, StaleToken, State, Unguarded
from lockfast.guards import sqlalchemy as guard
from lockfast.guards.mark import shown
from lockfast.guards.postgres import PostgresGuard
from tests.guards import story
from tests.guards.database import database, dismissed, lease, usurped
from tests.guards.registers.sqlalchemy import AsyncMapper, Mapper, Row, url
from tests.servers import Postgres, Redis


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with database() as server:
        server.command("SELECT lockfast_guard.protect_v1('watched', 'watched')")
        yield server


@pytest.fixture
def engine(server: Postgres) -> Iterator[Engine]:
    engine = create_engine(url(server.url))
    yield engine
    engine.dispose()


@pytest.mark.parametrize("register", [Mapper, AsyncMapper])
def test_a_holder_that_was_paused_is_refused_and_the_next_ones_value_stands(
    redis: Redis, server: Postgres, register: type[story.Resource]
) -> None:
    story.refused(redis.url, register, server.url, register.__name__)


@pytest.mark.parametrize("register", [Mapper, AsyncMapper])
def test_with_the_guard_switched_off_the_paused_holder_overwrites(
    redis: Redis, server: Postgres, register: type[story.Resource]
) -> None:
    story.corrupted(redis.url, register, server.url, f"{register.__name__}, bare")


def test_a_refusal_makes_the_lease_lost_and_leaves_the_session_usable(
    engine: Engine, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "session")
    with Session(engine) as session:
        guard.seal(session, fresh)
        with pytest.raises(StaleToken) as caught, guard.transaction(session, stale):
            pytest.fail("it was let in")
        assert caught.value.current == fresh.token
        assert stale.state is State.LOST
        with pytest.raises(StaleToken):
            guard.seal(session, stale)
        for _ in range(7):  # often enough for psycopg to prepare what is the same each time
            with guard.transaction(session, fresh) as same:
                assert same is session
                session.get_one(Row, 1).value = "session"
        assert session.get_one(Row, 1).value == "session"


def test_the_bodys_error_rolls_back(engine: Engine, client: lockfast.Client) -> None:
    held = lease(client, "rollback")
    with Session(engine) as session:
        with pytest.raises(ZeroDivisionError), guard.transaction(session, held):
            session.get_one(Row, 1).value = "never"
            session.flush()
            raise ZeroDivisionError
        assert session.get_one(Row, 1).value != "never"


def test_a_session_that_has_begun_is_too_late_for_a_guard(
    engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "begun")
    with Session(engine) as session:
        session.get_one(Row, 1)
        for way in (guard.seal, lambda s, at: guard.transaction(s, at).__enter__()):
            with pytest.raises(InvalidRequestError, match="already begun"):
                way(session, held)


def test_a_transaction_that_ends_within_its_block_is_not_taken_for_a_commit(
    engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "ended")
    with (
        Session(engine) as session,
        pytest.raises(InvalidRequestError, match="the block has ended the guarded transaction"),
        guard.transaction(session, held),
    ):
        session.rollback()


def test_an_error_that_the_block_has_caught_is_not_taken_for_a_commit(
    server: Postgres, engine: Engine, client: lockfast.Client
) -> None:
    """PostgreSQL answers the COMMIT of such a transaction by a ROLLBACK, and no driver minds."""
    server.command("UPDATE register SET value = 'before'")
    held = lease(client, "caught")
    with Session(engine) as session:
        with (
            pytest.raises(Unguarded, match="an error that the block caught"),
            guard.transaction(session, held),
        ):
            session.execute(text("UPDATE register SET value = 'lost'"))
            with contextlib.suppress(DBAPIError):
                session.execute(text("SELECT 1 / 0"))
        assert server.command("SELECT value FROM register") == [("before",)]
        with guard.transaction(session, held):
            session.get_one(Row, 1).value = "after"
    assert server.command("SELECT value FROM register") == [("after",)]
    held.release()


def _by_session(session: Session) -> None:
    session.commit()


def _by_rollback(session: Session) -> None:
    session.rollback()


def _by_close(session: Session) -> None:
    session.close()


def _by_connection(session: Session) -> None:
    session.connection().commit()


def _by_text(session: Session) -> None:
    session.execute(text("COMMIT"))


ENDINGS = [_by_session, _by_rollback, _by_close, _by_connection, _by_text]


@pytest.mark.parametrize("end", ENDINGS)
@pytest.mark.parametrize("again", [False, True])
def test_work_behind_a_commit_in_the_block_is_refused_before_it_is_done(
    server: Postgres,
    engine: Engine,
    client: lockfast.Client,
    end: Callable[[Session], None],
    again: bool,  # noqa: FBT001  # a parameter
) -> None:
    """A helper that commits, as much web code has; the lock has passed on since."""
    server.command("UPDATE register SET value = 'none'")
    stale = lease(client, "commits")
    with Session(engine) as session, Session(engine) as other:
        with pytest.raises((InvalidRequestError, Unguarded)), guard.transaction(session, stale):
            session.execute(text("SELECT 1"))
            end(session)
            dismissed(client, stale)
            fresh = lease(client, "commits")
            guard.seal(other, fresh)
            with contextlib.suppress(InvalidRequestError, Unguarded):
                session.execute(text("UPDATE register SET value = 'stale'"))
            if again:
                with contextlib.suppress(InvalidRequestError):
                    end(session)
        session.rollback()
        assert server.command("SELECT value FROM register") == [("none",)]
        with guard.transaction(session, fresh):  # it is as before
            session.get_one(Row, 1).value = "fresh"
        assert session.get_one(Row, 1).value == "fresh"


@pytest.mark.parametrize("end", ENDINGS)
@pytest.mark.parametrize("more", [False, True])
def test_the_page_says_what_is_raised_when_a_transaction_ends_within_its_block(
    engine: Engine,
    client: lockfast.Client,
    end: Callable[[Session], None],
    more: bool,  # noqa: FBT001  # a parameter
) -> None:
    beneath = end in {_by_connection, _by_text}
    held = lease(client, "page")
    with (
        Session(engine) as session,
        pytest.raises(Unguarded if beneath else InvalidRequestError),
        guard.transaction(session, held),
    ):
        session.execute(text("SELECT 1"))
        end(session)
        if more:
            session.execute(text("SELECT 1"))


@pytest.mark.parametrize("end", ENDINGS)
def test_the_same_for_asyncio(
    server: Postgres, client: lockfast.Client, end: Callable[[Session], None]
) -> None:
    server.command("UPDATE register SET value = 'none'")
    held = lease(client, "commits, async")

    async def play() -> None:
        engine = create_async_engine(url(server.url))
        async with AsyncSession(engine) as session:
            with pytest.raises((InvalidRequestError, Unguarded)):
                async with guard.async_transaction(session, held):
                    await session.run_sync(end)
                    await session.execute(text("UPDATE register SET value = 'stale'"))
            await session.rollback()
            async with guard.async_transaction(session, held):
                pass
        await engine.dispose()

    asyncio.run(play())
    assert server.command("SELECT value FROM register") == [("none",)]


CHAINS = ["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "COMMIT; BEGIN"]


@pytest.mark.parametrize("chain", CHAINS)
def test_a_second_transaction_that_the_block_has_begun_by_itself_is_not_committed(
    server: Postgres, engine: Engine, client: lockfast.Client, chain: str
) -> None:
    server.command("UPDATE register SET value = 'none'")
    stale, fresh = usurped(client, chain)
    with Session(engine) as session, Session(engine) as other:
        with pytest.raises(Unguarded, match="had ended"), guard.transaction(session, stale):
            session.execute(text(chain))
            guard.seal(other, fresh)
            session.execute(text("UPDATE register SET value = 'stale'"))
        assert server.command("SELECT value FROM register") == [("none",)]
        with guard.transaction(session, fresh):  # it is as before
            session.get_one(Row, 1).value = "fresh"
        assert session.get_one(Row, 1).value == "fresh"


@pytest.mark.parametrize("chain", CHAINS)
def test_a_second_transaction_is_not_committed_by_asyncio_either(
    server: Postgres, client: lockfast.Client, chain: str
) -> None:
    server.command("UPDATE register SET value = 'none'")
    held = lease(client, f"{chain}, async")

    async def play() -> None:
        engine = create_async_engine(url(server.url))
        async with AsyncSession(engine) as session:
            with pytest.raises(Unguarded):
                async with guard.async_transaction(session, held):
                    await session.execute(text(chain))
                    await session.execute(text("UPDATE register SET value = 'stale'"))
        await engine.dispose()

    asyncio.run(play())
    assert server.command("SELECT value FROM register") == [("none",)]


def test_a_session_on_a_connection_of_the_callers_leaves_it_usable(
    engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "own connection")
    with engine.connect() as connection:
        for _ in range(2):
            with Session(bind=connection) as session, guard.transaction(session, held):
                session.execute(text("SELECT 1"))
            connection.execute(text("SELECT 1"))
            connection.commit()


def test_savepoints_within_the_block_are_part_of_it(
    engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "savepoints")
    with Session(engine) as session:
        with guard.transaction(session, held):
            with pytest.raises(IntegrityError), session.begin_nested():
                session.execute(text("INSERT INTO register VALUES (1, 'twice')"))
            with session.begin_nested():
                session.get_one(Row, 1).value = "nested"
            session.begin_nested()  # left open
            session.execute(text("SELECT 1"))
        assert session.get_one(Row, 1).value == "nested"


def test_an_engine_in_autocommit_cannot_be_guarded(engine: Engine, client: lockfast.Client) -> None:
    held = lease(client, "autocommit")
    loose = engine.execution_options(isolation_level="AUTOCOMMIT")
    with (
        Session(loose) as session,
        pytest.raises(InvalidRequestError, match="AUTOCOMMIT"),
        guard.transaction(session, held),
    ):
        pytest.fail("it was let in")


def test_a_lease_that_its_own_clock_has_ended_does_not_write(
    engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "over")
    held.claim.until = 0.0
    with (
        Session(engine) as session,
        pytest.raises(LeaseLost),
        guard.transaction(session, held),
    ):
        pytest.fail("it was let in")


def test_a_session_that_slept_through_the_end_of_its_lease_is_told_so(
    engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "slept")
    with Session(engine) as session:
        with pytest.raises(LeaseLost), guard.transaction(session, held):
            session.execute(text("SET LOCAL idle_in_transaction_session_timeout = 20"))
            time.sleep(0.2)
            held.claim.until = 0.0
            session.get_one(Row, 1).value = "never"
        assert session.get_one(Row, 1).value != "never"


def test_the_trigger_speaks_through_the_session(engine: Engine, client: lockfast.Client) -> None:
    write = text("UPDATE watched SET value = value")
    with Session(engine) as session:
        with guard.transaction(session, lease(client, "watched")):
            session.execute(write)
        with pytest.raises(Unguarded), guard.transaction(session, lease(client, "other")):
            session.execute(write)


def test_a_serialization_failure_is_a_refusal_if_the_mark_says_so_and_else_the_callers(
    engine: Engine, server: Postgres, client: lockfast.Client
) -> None:
    strict = engine.execution_options(isolation_level="REPEATABLE READ")
    stale, fresh = usurped(client, "40001")

    def disturbed(session: Session) -> None:
        session.get_one(Row, 1).value = "late"
        server.command("UPDATE register SET value = 'somebody else'")
        session.flush()

    with Session(strict) as session:
        with pytest.raises(OperationalError, match="could not serialize"):  # noqa: SIM117  # as a user writes it
            with guard.transaction(session, stale):
                disturbed(session)
        stale.ensure_held()
        with pytest.raises(StaleToken), guard.transaction(session, stale):
            try:
                disturbed(session)
            except OperationalError:
                session.rollback()  # lets go of the mark
                with psycopg.connect(server.url) as connection:
                    PostgresGuard(connection).seal(fresh)
                raise


def test_the_asyncio_session_keeps_the_same_rule(server: Postgres, client: lockfast.Client) -> None:
    async def play() -> None:
        engine = create_async_engine(url(server.url))
        stale, fresh = usurped(client, "asyncio")
        async with AsyncSession(engine) as session:
            await guard.async_seal(session, fresh)
            async with guard.async_transaction(session, fresh):
                (await session.get_one(Row, 1)).value = "asyncio"
            with pytest.raises(StaleToken):
                async with guard.async_transaction(session, stale):
                    pytest.fail("it was let in")
            with pytest.raises(ZeroDivisionError):
                async with guard.async_transaction(session, fresh):
                    (await session.get_one(Row, 1)).value = "never"
                    raise ZeroDivisionError
            assert (await session.get_one(Row, 1)).value == "asyncio"
        await engine.dispose()

    asyncio.run(play())


def test_what_a_request_has_shown_is_as_good_as_a_lease(
    engine: Engine, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "afar, session")
    with Session(engine) as session:
        guard.seal(session, shown(fresh))
        with guard.transaction(session, shown(fresh)):
            session.get_one(Row, 1).value = "afar"
        with pytest.raises(StaleToken), guard.transaction(session, shown(stale)):
            pytest.fail("it was let in")
