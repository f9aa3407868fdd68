"""The guard for SQLAlchemy on SQLite: locks and data in two files, and no server at all."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import IntegrityError, InvalidRequestError, OperationalError
from sqlalchemy.orm import Session

import lockfast
from lockfast import LeaseLost, StaleToken, State, Unguarded
from lockfast.guards import sqlalchemy as guard
from lockfast.guards.mark import Mark, Shown, admit
from tests.guards import story
from tests.guards.database import dismissed, lease, shared, usurped
from tests.guards.registers.sqlalchemy import Base, Mapper, Row


def prepare(engine: Engine) -> None:
    Base.metadata.create_all(engine)
    with engine.begin() as connection:
        guard.install(connection)
        guard.install(connection)  # safe to run again
        connection.execute(text("INSERT INTO register VALUES (1, 'none')"))


@pytest.fixture
def where(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/data.db"


def by_the_driver(where: str) -> Engine:
    return create_engine(where)


def by_events(where: str) -> Engine:
    """As SQLAlchemy's documentation advises for savepoints: it begins transactions by itself."""
    engine = create_engine(where)

    @event.listens_for(engine, "connect")
    def connect(connection: sqlite3.Connection, _record: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN")

    return engine


class Standard(sqlite3.Connection):
    """A connection that is always in a transaction, as with `autocommit=False` since Python 3.12,
    which SQLAlchemy's documentation advises too.
    """

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]  # as `connect` passes them
        self.isolation_level = None
        self.execute("BEGIN")

    def commit(self) -> None:
        super().commit()
        self.execute("BEGIN")

    def rollback(self) -> None:
        super().rollback()
        self.execute("BEGIN")


def by_the_standard(where: str) -> Engine:
    return create_engine(where, connect_args={"factory": Standard})


@pytest.fixture(
    params=[by_the_driver, by_events, by_the_standard], ids=["driver", "events", "standard"]
)
def engine(request: pytest.FixtureRequest, where: str) -> Iterator[Engine]:
    engine = request.param(where)
    prepare(engine)
    yield engine
    engine.dispose()


def value(engine: Engine) -> str:
    with Session(engine) as session:
        return session.get_one(Row, 1).value


def test_a_holder_that_was_paused_is_refused_and_the_next_ones_value_stands(
    tmp_path: Path, where: str
) -> None:
    engine = create_engine(where)
    prepare(engine)
    engine.dispose()
    story.refused(f"sqlite:///{tmp_path}/locks.db", Mapper, where, "sqlite")


def test_with_the_guard_switched_off_the_paused_holder_overwrites(
    tmp_path: Path, where: str
) -> None:
    engine = create_engine(where)
    prepare(engine)
    engine.dispose()
    story.corrupted(f"sqlite:///{tmp_path}/locks.db", Mapper, where, "sqlite, bare")


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
        for number in range(3):
            with guard.transaction(session, fresh) as same:
                assert same is session
                session.get_one(Row, 1).value = f"session {number}"
    assert value(engine) == "session 2"


def test_the_rule_in_sql_is_the_rule(engine: Engine) -> None:
    """Every small mark against every small holder: as `mark.admit` has it."""
    marks = [None, *(Mark(token, id_) for token in (4, 5, 6) for id_ in ("", "a", "b"))]
    holders = [
        Shown("rule", token, id_, floor, shared=shared)
        for token, id_, floor, shared in product((4, 5, 6), ("a", "b"), (3, 4, 5, 6), (False, True))
        if (floor <= token if shared else floor == token)
    ]
    with engine.connect() as connection:
        for mark, holder in product(marks, holders):
            connection.execute(text("DELETE FROM lockfast_guard_mark"))
            if mark is not None:
                connection.exec_driver_sql(
                    "INSERT INTO lockfast_guard_mark VALUES (?, ?, ?)", (b"rule", *mark)
                )
            connection.commit()
            try:
                expected = admit(mark, holder)
            except StaleToken:
                expected = mark  # type: ignore[assignment]  # there is one, if it refuses
            with Session(connection) as session, contextlib.suppress(StaleToken):
                guard.seal(session, holder)
            rows = connection.exec_driver_sql("SELECT token, id FROM lockfast_guard_mark").all()
            assert [Mark(*row) for row in rows] == [expected], (mark, holder)
            connection.commit()


def test_readers_write_beside_each_other_and_not_behind_a_writer(
    engine: Engine, client: lockfast.Client
) -> None:
    one, other = shared(client, "shared"), shared(client, "shared")
    with Session(engine) as session:
        for reader in (other, one, other):
            with guard.transaction(session, reader):
                session.get_one(Row, 1).value = "reader"
        dismissed(client, one)
        dismissed(client, other)
        guard.seal(session, client.rwlock("shared").write().acquire(timeout=5))
        with pytest.raises(StaleToken), guard.transaction(session, one):
            pytest.fail("it was let in")


def test_the_bodys_error_rolls_back(engine: Engine, client: lockfast.Client) -> None:
    with (
        Session(engine) as session,
        pytest.raises(ZeroDivisionError),
        guard.transaction(session, lease(client, "rollback")),
    ):
        session.get_one(Row, 1).value = "never"
        session.flush()
        raise ZeroDivisionError
    assert value(engine) == "none"


def _by_session(session: Session) -> None:
    session.commit()


def _by_rollback(session: Session) -> None:
    session.rollback()


def _by_connection(session: Session) -> None:
    session.connection().commit()


def _by_text(session: Session) -> None:
    session.execute(text("COMMIT"))


def _by_script(session: Session) -> None:
    driver = session.connection().connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    # It commits before it begins.
    driver.executescript("BEGIN; UPDATE register SET value = 'stale'")


ENDINGS = [_by_session, _by_rollback, _by_connection, _by_text, _by_script]


@pytest.mark.parametrize("end", ENDINGS)
@pytest.mark.parametrize("more", [False, True])
def test_work_behind_a_commit_in_the_block_is_refused(
    engine: Engine, client: lockfast.Client, *, end: Callable[[Session], None], more: bool
) -> None:
    held = lease(client, "ended")
    with Session(engine) as session:
        with pytest.raises((InvalidRequestError, Unguarded)), guard.transaction(session, held):
            session.execute(text("SELECT 1"))
            end(session)
            if more:
                session.execute(text("UPDATE register SET value = 'stale'"))
                if end is not _by_script:  # the driver itself could do this without being seen
                    end(session)
        session.rollback()
        assert value(engine) == "none"
        with guard.transaction(session, held):  # it is as before
            session.get_one(Row, 1).value = "fresh"
    assert value(engine) == "fresh"


def test_savepoints_within_the_block_are_part_of_it(
    engine: Engine, client: lockfast.Client
) -> None:
    with Session(engine) as session, guard.transaction(session, lease(client, "savepoints")):
        with pytest.raises(IntegrityError), session.begin_nested():
            session.execute(text("INSERT INTO register VALUES (1, 'twice')"))
        with session.begin_nested():
            session.get_one(Row, 1).value = "nested"
        session.begin_nested()  # left open
        session.execute(text("SELECT 1"))
    assert value(engine) == "nested"


def test_while_a_guarded_transaction_is_open_nobody_else_writes(
    where: str, engine: Engine, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "open")
    impatient = create_engine(where, connect_args={"timeout": 0.1})
    with Session(engine) as session, Session(impatient) as other:
        with guard.transaction(session, stale):
            session.get_one(Row, 1).value = "first"
            session.flush()
            with pytest.raises(OperationalError, match="locked"):
                guard.seal(other, fresh)
        guard.seal(other, fresh)
        with pytest.raises(StaleToken), guard.transaction(session, stale):
            pytest.fail("it was let in")
    impatient.dispose()
    assert value(engine) == "first"


def test_an_engine_in_autocommit_cannot_be_guarded(where: str, client: lockfast.Client) -> None:
    engine = create_engine(where)
    prepare(engine)
    loose = engine.execution_options(isolation_level="AUTOCOMMIT")
    with (
        Session(loose) as session,
        pytest.raises(InvalidRequestError, match="AUTOCOMMIT"),
        guard.transaction(session, lease(client, "autocommit")),
    ):
        pytest.fail("it was let in")
    engine.dispose()


def test_a_lease_that_its_own_clock_has_ended_does_not_write(
    engine: Engine, client: lockfast.Client
) -> None:
    held = lease(client, "over")
    held.claim.until = 0.0
    with Session(engine) as session, pytest.raises(LeaseLost), guard.transaction(session, held):
        pytest.fail("it was let in")


def test_a_database_without_marks_and_a_lock_in_another_database_are_refused(
    where: str, client: lockfast.Client
) -> None:
    engine = create_engine(where)
    held = lease(client, "missing")
    with Session(engine) as session:
        with pytest.raises(Unguarded, match="install"):
            guard.seal(session, held)
        with pytest.raises(Unguarded, match="install"), guard.transaction(session, held):
            pytest.fail("it was let in")
        prepare(engine)
        with (
            pytest.raises(InvalidRequestError, match="check_lease"),
            guard.transaction(session, held, check_lease=True),
        ):
            pytest.fail("it was let in")
        with pytest.raises(TypeError, match="needs a lease"), guard.transaction(session):
            pytest.fail("it was let in")
    engine.dispose()
