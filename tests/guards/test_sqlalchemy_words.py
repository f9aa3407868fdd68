"""The guard for SQLAlchemy says the same on every database: one program, run on each of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, select, text
from sqlalchemy.exc import IntegrityError, InvalidRequestError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column

import lockfast
from lockfast import LeaseLost, StaleToken, State, Unguarded
from lockfast.guards import sqlalchemy as guard
from tests.guards.database import lease, shared
from tests.guards.mariadb import usurped
from tests.guards.registers.sqlalchemy import url
from tests.servers import MariaDB, Postgres

DATABASES = ["postgresql", "mariadb", "sqlite"]


class Base(DeclarativeBase):
    """The tables of this file."""


class Account(Base):
    """A table that is made the same everywhere."""

    __tablename__ = "account"
    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    balance: Mapped[int]


@pytest.fixture(params=DATABASES)
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where one of the databases is. Its server is started only if it is used."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/data.db"
    if request.param == "mariadb":
        mariadb: MariaDB = request.getfixturevalue("mariadb")
        return url(mariadb.url)
    server: Postgres = request.getfixturevalue("server")
    server.command("DROP SCHEMA IF EXISTS lockfast_guard CASCADE")
    return url(server.url)


def prepare(connection: Connection) -> None:
    guard.install(connection)
    guard.install(connection)  # safe to repeat
    Base.metadata.drop_all(connection)
    Base.metadata.create_all(connection)
    connection.execute(text("INSERT INTO account VALUES (1, 100)"))


@pytest.fixture
def engine(where: str) -> Iterator[Engine]:
    engine = create_engine(where)
    with engine.begin() as connection:
        prepare(connection)
    yield engine
    engine.dispose()


@asynccontextmanager
async def prepared(where: str) -> AsyncIterator[AsyncEngine]:
    """The same for asyncio, where two databases have another driver."""
    where = where.replace("+pymysql:", "+asyncmy:").replace("sqlite:", "sqlite+aiosqlite:")
    engine = create_async_engine(where)
    async with engine.begin() as connection:
        await connection.run_sync(prepare)
    yield engine
    await engine.dispose()


def balance(engine: Engine) -> int:
    with Session(engine) as session:
        return session.get_one(Account, 1).balance


def test_a_stale_holder_is_refused(engine: Engine, client: lockfast.Client) -> None:
    stale, fresh = usurped(client, "account:1")
    with Session(engine) as session:
        with guard.transaction(session, stale):
            session.get_one(Account, 1).balance = 90  # it is not stale before the next one comes
        guard.seal(session, fresh)
        with guard.transaction(session, fresh):
            session.get_one(Account, 1).balance -= 10
        with pytest.raises(StaleToken) as caught, guard.transaction(session, stale):
            session.get_one(Account, 1).balance = 0
        assert (caught.value.token, caught.value.current) == (stale.token, fresh.token)
        assert stale.state is State.LOST
        with pytest.raises(StaleToken):
            guard.seal(session, stale)
        with guard.transaction(session, fresh):
            session.get_one(Account, 1).balance -= 1
    assert balance(engine) == 79


def test_a_block_is_committed_whole_or_not_at_all(engine: Engine, client: lockfast.Client) -> None:
    with client.lock("account:2") as held, Session(engine) as session:
        with pytest.raises(ZeroDivisionError), guard.transaction(session, held):
            session.get_one(Account, 1).balance = 0
            session.flush()
            raise ZeroDivisionError
        assert balance(engine) == 100
        with pytest.raises(IntegrityError), guard.transaction(session, held):
            session.get_one(Account, 1).balance = 0
            session.execute(text("INSERT INTO account VALUES (1, 1)"))
        assert balance(engine) == 100
        with guard.transaction(session, held):
            with session.begin_nested() as savepoint:
                session.get_one(Account, 1).balance = 0
                savepoint.rollback()
            session.add(Account(id=2, balance=5))
        assert session.scalars(select(Account.balance).order_by(Account.id)).all() == [100, 5]


def _by_session(session: Session) -> None:
    session.commit()


def _by_connection(session: Session) -> None:
    session.connection().commit()


def _by_text(session: Session) -> None:
    session.execute(text("COMMIT"))


@pytest.mark.parametrize("end", [_by_session, _by_connection, _by_text])
def test_nothing_is_written_behind_the_end_of_the_transaction(
    engine: Engine, client: lockfast.Client, end: object
) -> None:
    held = lease(client, "account:3")
    wanted = InvalidRequestError if end is _by_session else Unguarded
    with Session(engine) as session:
        with pytest.raises(wanted), guard.transaction(session, held):
            assert callable(end)
            end(session)
            session.execute(text("UPDATE account SET balance = 0"))
        session.rollback()
        assert balance(engine) == 100
        with guard.transaction(session, held):
            session.get_one(Account, 1).balance = 1
    assert balance(engine) == 1


def test_what_cannot_be_guarded_is_refused(engine: Engine, client: lockfast.Client) -> None:
    held = lease(client, "account:4")
    with Session(engine) as session:
        session.get_one(Account, 1)
        with pytest.raises(InvalidRequestError), guard.transaction(session, held):
            pytest.fail("it has read before the check")
    with (
        Session(engine.execution_options(isolation_level="AUTOCOMMIT")) as session,
        pytest.raises(InvalidRequestError, match="AUTOCOMMIT"),
        guard.transaction(session, held),
    ):
        pytest.fail("it has no transaction")
    permit = shared(client, "permits", capacity=2)
    held.claim.until = 0.0
    for refused, wanted in ((permit, TypeError), (held, LeaseLost)):
        with Session(engine) as session:
            with pytest.raises(wanted):
                guard.seal(session, refused)
            with pytest.raises(wanted), guard.transaction(session, refused):
                pytest.fail("it was let in")
    with Session(engine) as session, pytest.raises(TypeError, match="needs a lease"):
        guard.seal(session)


def test_readers_and_two_locks(engine: Engine, client: lockfast.Client) -> None:
    first, second = shared(client, "read"), shared(client, "read")
    with Session(engine) as session:
        for held in (second, first):
            with guard.transaction(session, held):
                session.get_one(Account, 1).balance += 1
        stale, fresh = usurped(client, "two")
        guard.seal(session, fresh)
        with pytest.raises(StaleToken) as caught, guard.transaction(session, first, stale):
            pytest.fail("it was let in")
        assert caught.value.current == fresh.token
        assert first.state is State.HELD
        with guard.transaction(session, fresh, first):
            session.get_one(Account, 1).balance += 1
    assert balance(engine) == 103


def test_the_same_for_asyncio(where: str, client: lockfast.Client) -> None:
    stale, fresh = usurped(client, "account:5")

    async def play() -> None:
        async with prepared(where) as engine, AsyncSession(engine) as session:
            await guard.async_seal(session, fresh)
            async with guard.async_transaction(session, fresh):
                (await session.get_one(Account, 1)).balance -= 10
            with pytest.raises(StaleToken):
                async with guard.async_transaction(session, stale):
                    pytest.fail("it was let in")
            with pytest.raises(Unguarded):
                async with guard.async_transaction(session, fresh):
                    await session.execute(text("COMMIT"))
                    await session.execute(text("UPDATE account SET balance = 0"))
            await session.rollback()
            assert (await session.get_one(Account, 1)).balance == 90

    asyncio.run(play())
