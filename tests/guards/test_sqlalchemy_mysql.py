"""The guard for SQLAlchemy on MariaDB, with the same words as on PostgreSQL and SQLite."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import DBAPIError, IntegrityError, InvalidRequestError, OperationalError
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

import lockfast
from lockfast import LeaseLost, StaleToken, State, Unguarded
from lockfast.guards import sqlalchemy as guard
from lockfast.guards.mark import shown
from lockfast.guards.mysql import MysqlGuard, protect
from tests.guards import story
from tests.guards.database import dismissed, lease
from tests.guards.mariadb import usurped
from tests.guards.registers.mysql import connect
from tests.guards.registers.sqlalchemy import AsyncMapper, Mapper, Row, url
from tests.servers import MariaDB, Redis

SESSION = text("SELECT @@wait_timeout, @@innodb_lock_wait_timeout, @lockfast_shown, @@autocommit")
WRITE = text("UPDATE register SET value = 'stale'")


@pytest.fixture
def engine(mariadb: MariaDB) -> Iterator[Engine]:
    mariadb.command("UPDATE app.register SET value = 'none'")
    engine = create_engine(url(mariadb.url), pool_size=1, max_overflow=1)
    yield engine
    engine.dispose()


def value(server: MariaDB) -> str:
    return str(server.command("SELECT value FROM app.register WHERE id = 1")[0][0])


@pytest.mark.parametrize("register", [Mapper, AsyncMapper])
def test_a_holder_that_was_paused_is_refused_and_the_next_ones_value_stands(
    redis: Redis, mariadb: MariaDB, register: type[story.Resource]
) -> None:
    story.refused(redis.url, register, mariadb.url, register.__name__)


@pytest.mark.parametrize("register", [Mapper, AsyncMapper])
def test_with_the_guard_switched_off_the_paused_holder_overwrites(
    redis: Redis, mariadb: MariaDB, register: type[story.Resource]
) -> None:
    story.corrupted(redis.url, register, mariadb.url, f"{register.__name__}, bare")


def test_a_refusal_makes_the_lease_lost_and_leaves_the_session_usable(
    engine: Engine, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "session")
    with Session(engine) as session:
        before = session.execute(SESSION).all()
        session.rollback()
        guard.seal(session, fresh)
        with pytest.raises(StaleToken) as caught, guard.transaction(session, stale):
            pytest.fail("it was let in")
        assert caught.value.current == fresh.token
        assert stale.state is State.LOST
        with pytest.raises(StaleToken):
            guard.seal(session, stale)
        for _ in range(3):
            with guard.transaction(session, fresh) as same:
                assert same is session
                session.get_one(Row, 1).value = "session"
        assert session.get_one(Row, 1).value == "session"
        assert session.execute(SESSION).all() == before


def test_the_bodys_error_rolls_back_and_the_connection_is_as_before(
    mariadb: MariaDB, engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "rollback")
    with Session(engine) as session:
        before = session.execute(SESSION).all()
        session.rollback()
        with pytest.raises(ZeroDivisionError), guard.transaction(session, held):
            assert session.execute(SESSION).all() != before
            session.get_one(Row, 1).value = "never"
            session.flush()
            raise ZeroDivisionError
        assert value(mariadb) == "none"
        assert session.execute(SESSION).all() == before  # from the pool


def test_a_session_that_has_begun_is_too_late_for_a_guard(
    engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "begun")
    with Session(engine) as session:
        session.get_one(Row, 1)
        for way in (guard.seal, lambda s, at: guard.transaction(s, at).__enter__()):
            with pytest.raises(InvalidRequestError, match="already begun"):
                way(session, held)
    with engine.connect() as connection, Session(bind=connection) as session:
        connection.exec_driver_sql("SELECT 1 FROM register")
        with pytest.raises(InvalidRequestError, match="bound to a connection"):
            guard.seal(session, held)


def test_an_error_that_the_block_has_caught_ends_only_its_statement(
    mariadb: MariaDB, engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "caught")
    with Session(engine) as session, guard.transaction(session, held):
        session.execute(text("UPDATE register SET value = 'kept'"))
        with pytest.raises(IntegrityError):
            session.execute(text("INSERT INTO register (id, value) VALUES (1, 'twice')"))
        session.execute(text("SELECT 1"))
    assert value(mariadb) == "kept"


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


def _by_ddl(session: Session) -> None:
    session.execute(text("CREATE TABLE made (id INT)"))


def _by_chain(session: Session) -> None:
    session.execute(text("COMMIT AND CHAIN"))


def _by_procedure(session: Session) -> None:
    session.execute(text("CALL helper()"))


def _by_failed_ddl(session: Session) -> None:
    with contextlib.suppress(DBAPIError):
        session.execute(text("/*!50000 CREATE TABLE register (id INT) */"))


def _by_driver(session: Session) -> None:
    session.connection().exec_driver_sql("/*!50000 COMMIT */")


ENDINGS = [
    _by_session,
    _by_rollback,
    _by_close,
    _by_connection,
    _by_text,
    _by_ddl,
    _by_chain,
    _by_procedure,
    _by_failed_ddl,
    _by_driver,
]
OWN = (InvalidRequestError, Unguarded)


@pytest.mark.parametrize("end", ENDINGS)
@pytest.mark.parametrize("again", [False, True])
def test_work_behind_a_commit_in_the_block_is_refused_before_it_is_done(
    mariadb: MariaDB,
    engine: Engine,
    client: lockfast.Client,
    end: Callable[[Session], None],
    again: bool,  # noqa: FBT001  # a parameter
) -> None:
    """A helper that commits, as much web code has; the lock has passed on since."""
    mariadb.command("CREATE OR REPLACE PROCEDURE app.helper() COMMIT")
    stale = lease(client, "commits")
    with Session(engine) as session, Session(engine) as other:
        with pytest.raises(OWN), guard.transaction(session, stale):
            session.execute(text("SELECT 1"))
            with contextlib.suppress(Unguarded):
                end(session)
            dismissed(client, stale)
            fresh = lease(client, "commits")
            if end not in {_by_text, _by_ddl, _by_chain}:  # which were not sent: it is locked
                guard.seal(other, fresh)
            with pytest.raises(OWN):
                session.execute(WRITE)
            if again:
                with contextlib.suppress(*OWN):
                    end(session)
        session.rollback()
        assert value(mariadb) == "none"
        with guard.transaction(session, fresh):  # it is as before
            session.get_one(Row, 1).value = "fresh"
        assert session.get_one(Row, 1).value == "fresh"
        assert session.execute(SESSION).one()[2] is None


@pytest.mark.parametrize("end", ENDINGS)
@pytest.mark.parametrize("more", [False, True])
def test_the_page_says_what_is_raised_when_a_transaction_ends_within_its_block(
    mariadb: MariaDB,
    engine: Engine,
    client: lockfast.Client,
    end: Callable[[Session], None],
    more: bool,  # noqa: FBT001  # a parameter
) -> None:
    mariadb.command("CREATE OR REPLACE PROCEDURE app.helper() COMMIT")
    by_session = end in {_by_session, _by_rollback, _by_close}
    held = lease(client, "page")
    with (
        Session(engine) as session,
        pytest.raises(InvalidRequestError if by_session else Unguarded),
        guard.transaction(session, held),
    ):
        session.execute(text("SELECT 1"))
        end(session)
        if more:
            session.execute(text("SELECT 1"))


def test_a_second_transaction_that_a_procedure_has_begun_is_not_committed(
    mariadb: MariaDB, engine: Engine, client: lockfast.Client
) -> None:
    mariadb.command(
        "CREATE OR REPLACE PROCEDURE app.chained() BEGIN COMMIT; START TRANSACTION; END"
    )
    stale, fresh = usurped(client, "chained")
    with Session(engine) as session, Session(engine) as other:
        with pytest.raises(Unguarded, match="had ended"), guard.transaction(session, stale):
            session.execute(text("CALL chained()"))
            guard.seal(other, fresh)
            session.execute(WRITE)
        assert value(mariadb) == "none"
        with guard.transaction(session, fresh):
            pass


def test_savepoints_within_the_block_are_part_of_it(
    engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "savepoints")
    with Session(engine) as session:
        with guard.transaction(session, held):
            with pytest.raises(IntegrityError), session.begin_nested():
                session.execute(text("INSERT INTO register (id, value) VALUES (1, 'twice')"))
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
    with Session(loose) as session:
        guard.seal(session, held)
        assert session.execute(SESSION).one()[2] is None


def test_a_lease_that_its_own_clock_has_ended_does_not_write(
    engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "over")
    held.claim.until = 0.0
    with Session(engine) as session:
        with pytest.raises(LeaseLost), guard.transaction(session, held):
            pytest.fail("it was let in")
        assert session.execute(SESSION).one()[2] is None


def test_a_session_that_was_cut_off_after_the_end_of_its_lease_is_told_so(
    mariadb: MariaDB, engine: Engine, client: lockfast.Client
) -> None:
    for over in (False, True):
        held = lease(client, f"cut off {over}")
        with Session(engine) as session:
            with (
                pytest.raises(LeaseLost if over else OperationalError),
                guard.transaction(session, held),
            ):
                ident = session.execute(text("SELECT CONNECTION_ID()")).scalar_one()
                mariadb.command(f"KILL {ident}")
                if over:
                    held.claim.until = 0.0
                session.get_one(Row, 1).value = "never"
            assert session.get_one(Row, 1).value != "never"


def test_a_collision_is_a_refusal_if_the_mark_says_so_and_else_the_callers(
    mariadb: MariaDB, engine: Engine, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "1205")
    with connect(mariadb.url) as blocker, Session(engine) as session:
        blocker.begin()
        with blocker.cursor() as cursor:
            cursor.execute("UPDATE register SET value = 'held'")

        def disturbed() -> None:
            session.execute(text("SET innodb_lock_wait_timeout = 1"))
            session.execute(WRITE)

        with (
            pytest.raises(OperationalError, match="Lock wait timeout"),
            guard.transaction(session, stale),
        ):
            disturbed()
        stale.ensure_held()
        with pytest.raises(StaleToken), guard.transaction(session, stale):
            try:
                disturbed()
            except OperationalError:
                session.rollback()  # lets go of the mark
                with connect(mariadb.url) as other:
                    MysqlGuard(other).seal(fresh)
                raise
        blocker.rollback()


def test_the_trigger_speaks_through_the_session(
    mariadb: MariaDB, engine: Engine, client: lockfast.Client
) -> None:
    with connect(mariadb.url) as connection:
        protect(connection, "watched", "watched")
    write = text("UPDATE watched SET value = value")
    with Session(engine) as session:
        with guard.transaction(session, lease(client, "watched")):
            session.execute(write)
        with pytest.raises(Unguarded), guard.transaction(session, lease(client, "other")):
            session.execute(write)
        with pytest.raises(OperationalError, match="LF002"):
            session.execute(write)


def test_what_a_request_has_shown_is_as_good_as_a_lease(
    engine: Engine, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "afar")
    with Session(engine) as session:
        guard.seal(session, shown(fresh))
        with guard.transaction(session, shown(fresh)):
            session.get_one(Row, 1).value = "afar"
        with pytest.raises(StaleToken), guard.transaction(session, shown(stale)):
            pytest.fail("it was let in")


def test_the_lease_itself_cannot_be_asked(engine: Engine, client: lockfast.Client) -> None:
    with (
        Session(engine) as session,
        pytest.raises(InvalidRequestError, match="PostgreSQL"),
        guard.transaction(session, lease(client, "asked"), check_lease=True),
    ):
        pytest.fail("it was let in")


def test_two_sessions_on_one_connection_are_not_two_transactions(
    engine: Engine, client: lockfast.Client
) -> None:
    one, two = lease(client, "shared, one"), lease(client, "shared, two")
    with (
        engine.connect() as connection,
        Session(bind=connection) as session,
        Session(bind=connection) as other,
        pytest.raises(Unguarded, match="had ended"),
        guard.transaction(session, one),
    ):
        with (
            pytest.raises(InvalidRequestError, match="another guarded transaction is open"),
            guard.transaction(other, two),
        ):
            pytest.fail("it was let in")
        session.execute(WRITE)  # the refused one has rolled their transaction back


@pytest.mark.parametrize("name", ["mysql", "mariadb"])
def test_it_is_installed_with_a_connection(client: lockfast.Client, name: str) -> None:
    with MariaDB() as server:
        server.command("CREATE DATABASE app")
        engine = create_engine(url(server.url).replace("mysql+", f"{name}+"))
        held = lease(client, f"installed {name}")
        with Session(engine) as session, pytest.raises(Unguarded, match="install"):
            guard.seal(session, held)
        for _ in range(2):
            with engine.connect() as connection:
                guard.install(connection)
        with Session(engine) as session:
            guard.seal(session, held)
            with guard.transaction(session, held):
                session.execute(text("SELECT 1"))
        engine.dispose()


def test_the_asyncio_session_keeps_the_same_rule(mariadb: MariaDB, client: lockfast.Client) -> None:
    async def play() -> None:
        engine = create_async_engine(url(mariadb.url, "asyncmy"))
        stale, fresh = usurped(client, "asyncio")
        async with engine.connect() as connection:
            await connection.run_sync(guard.install)
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
            assert (await session.execute(SESSION)).one()[2] is None
        await engine.dispose()

    asyncio.run(play())


@pytest.mark.parametrize("end", ENDINGS)
def test_the_same_for_asyncio(
    mariadb: MariaDB, client: lockfast.Client, end: Callable[[Session], None]
) -> None:
    mariadb.command("UPDATE app.register SET value = 'none'")
    mariadb.command("CREATE OR REPLACE PROCEDURE app.helper() COMMIT")
    held = lease(client, "commits, async")

    async def play() -> None:
        engine = create_async_engine(url(mariadb.url, "asyncmy"))
        async with AsyncSession(engine) as session:
            with pytest.raises(OWN):
                async with guard.async_transaction(session, held):
                    with contextlib.suppress(Unguarded):
                        await session.run_sync(end)
                    await session.execute(WRITE)
            await session.rollback()
            async with guard.async_transaction(session, held):
                pass
        await engine.dispose()

    asyncio.run(play())
    assert value(mariadb) == "none"
    held.release()


def test_a_task_that_is_cancelled_leaves_nothing_on_the_connection(
    mariadb: MariaDB, client: lockfast.Client
) -> None:
    held = lease(client, "cancelled")

    async def play() -> None:
        engine = create_async_engine(url(mariadb.url, "asyncmy"), pool_size=1, max_overflow=0)

        async def work() -> None:
            async with AsyncSession(engine) as session, guard.async_transaction(session, held):
                await session.execute(WRITE)
                await session.execute(text("SELECT SLEEP(5)"))

        task = asyncio.create_task(work())
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        async with AsyncSession(engine) as session:
            assert (await session.execute(SESSION)).one()[2] is None
            await session.rollback()
            async with guard.async_transaction(session, held):
                pass
        await engine.dispose()

    mariadb.command("UPDATE app.register SET value = 'none'")
    asyncio.run(play())
    assert value(mariadb) == "none"
