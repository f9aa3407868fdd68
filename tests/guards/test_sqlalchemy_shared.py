"""The guard for SQLAlchemy with sessions that share a connection, a transaction or a registry."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from sqlalchemy import Engine, create_engine, text
from sqlalchemy.exc import InvalidRequestError
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import StaticPool

import lockfast
from lockfast import StaleToken
from lockfast.guards import sqlalchemy as guard
from tests.guards.database import lease, usurped
from tests.guards.registers.sqlalchemy import Row
from tests.guards.test_sqlalchemy_sqlite import prepare, value


@pytest.fixture
def where(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/data.db"


@pytest.fixture
def engine(where: str) -> Engine:
    engine = create_engine(where)
    prepare(engine)
    return engine


def test_a_seal_within_the_transaction_of_a_connection_is_refused(
    engine: Engine, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "joined")
    with engine.connect() as connection, connection.begin() as outer:
        with Session(connection) as session, pytest.raises(InvalidRequestError, match="Seal befor"):
            guard.seal(session, fresh)  # the next line would remove it, and admit the stale lease
        outer.rollback()
    with Session(engine) as session:
        guard.seal(session, fresh)
        with pytest.raises(StaleToken), guard.transaction(session, stale):
            pytest.fail("it was let in")


def test_a_guarded_transaction_within_the_transaction_of_a_connection_ends_with_it(
    engine: Engine, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "inner")
    with engine.connect() as connection:
        for end in (False, True):
            with connection.begin() as outer:
                with Session(connection) as session, guard.transaction(session, fresh):
                    session.get_one(Row, 1).value = "fresh"
                (outer.commit if end else outer.rollback)()
            assert value(engine) == ("fresh" if end else "none")
    with (
        Session(engine) as session,
        pytest.raises(StaleToken),
        guard.transaction(session, stale),
    ):
        pytest.fail("it was let in")


@pytest.mark.parametrize("again", ["transaction", "seal"])
def test_two_sessions_on_one_connection_are_not_guarded_at_once(
    where: str, engine: Engine, client: lockfast.Client, again: str
) -> None:
    """Else the first, stale by now, would write after the mark of the second."""
    stale, fresh = usurped(client, "static")
    one = create_engine(where, poolclass=StaticPool, connect_args={"check_same_thread": False})
    refused: list[Exception] = []

    def intrude() -> None:
        with Session(one) as other, pytest.raises(InvalidRequestError, match="another") as caught:
            if again == "seal":
                guard.seal(other, fresh)
            with guard.transaction(other, fresh):
                pytest.fail("it was let in")
        refused.append(caught.value)

    with Session(one) as session:
        with pytest.raises(lockfast.Unguarded), guard.transaction(session, stale):
            session.get_one(Row, 1).value = "first"
            session.flush()
            thread = threading.Thread(target=intrude)
            thread.start()
            thread.join()
            assert refused
            session.execute(text("UPDATE register SET value = 'stale'"))
        with guard.transaction(session, fresh):  # the block has ended, and the connection is free
            session.get_one(Row, 1).value += ", then fresh"
    one.dispose()
    assert value(engine) == "none, then fresh"


def test_a_scoped_session_is_guarded(engine: Engine, client: lockfast.Client) -> None:
    """Flask-SQLAlchemy's `db.session` is one."""
    scoped = scoped_session(sessionmaker(engine))
    held = lease(client, "scoped")
    guard.seal(scoped, held)
    with guard.transaction(scoped, held) as session:
        assert session is scoped()
        scoped.get_one(Row, 1).value = "scoped"
    with pytest.raises(ZeroDivisionError), guard.transaction(scoped, held):
        scoped.get_one(Row, 1).value = "never"
        raise ZeroDivisionError
    scoped.remove()
    assert value(engine) == "scoped"
