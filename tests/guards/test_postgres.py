"""The PostgreSQL guard: the rule, in the transaction of the write."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

import lockfast
from lockfast import LeaseLost, Loss, StaleToken, State
from lockfast.engines import postgres as engine
from lockfast.guards.mark import shown
from lockfast.guards.postgres import (
    PostgresGuard,
)
from tests.guards.database import dismissed, lease, shared, usurped
from tests.guards.registers.postgres import (
    SELECT,
    UPDATE,
)
from tests.servers import Postgres, wait_until

Connection = psycopg.Connection[tuple[Any, ...]]


def test_a_holder_writes_many_times(connection: Connection, client: lockfast.Client) -> None:
    guard = PostgresGuard(connection)
    held = lease(client, "many")
    for each in ("one", "two"):  # trap 29
        with guard.transaction(held) as cursor:
            cursor.execute(UPDATE, [each])
    guard.seal(held)
    assert connection.execute(SELECT).fetchone() == ("two",)


def test_a_refusal_names_both_tokens_and_makes_the_lease_lost(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    stale, fresh = usurped(client, "refused")
    told: list[None] = []
    stale.on_lost(lambda: told.append(None))
    guard.seal(fresh)
    stale.ensure_held()  # as far as it knows
    with pytest.raises(StaleToken) as caught, guard.transaction(stale):
        pytest.fail("it was let in")
    error = caught.value
    assert (error.name, error.token, error.current) == ("refused", stale.token, fresh.token)
    assert stale.state is State.LOST
    assert stale.loss is Loss.FENCED
    with pytest.raises(LeaseLost):
        stale.ensure_held()
    wait_until(lambda: bool(told), "the holder is told")
    assert fresh.state is State.HELD


def test_two_equal_tokens_of_two_claims_do_not_both_write(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    stale, fresh = usurped(client, "split")
    fresh.claim.ticket = stale.claim.ticket  # trap 46: both primaries of a split minted it
    guard.seal(fresh)
    with pytest.raises(StaleToken):
        guard.seal(stale)
    guard.seal(fresh)


def test_readers_raise_the_mark_to_their_floor_and_no_higher(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    first, second = shared(client, "read"), shared(client, "read")
    assert first.ticket < second.ticket
    guard.seal(second)
    guard.seal(first)
    with guard.transaction(first), pytest.raises(TypeError):
        _ = first.token
    mark = connection.execute("SELECT token, id FROM lockfast_guard.mark WHERE name = 'read'")
    assert mark.fetchone() == (first.ticket, "")
    connection.rollback()
    for reader in (first, second):
        dismissed(client, reader)
    guard.seal(lease_of_writer := shared(client, "read", weight=2**31 - 1))
    for reader in (first, second):
        with pytest.raises(StaleToken):
            guard.seal(reader)
    guard.seal(lease_of_writer)


def test_a_permit_of_a_semaphore_is_turned_away_with_an_explanation(
    connection: Connection, client: lockfast.Client
) -> None:
    with pytest.raises(TypeError, match="cannot be fenced"):
        PostgresGuard(connection).seal(shared(client, "permits", capacity=3))


def test_any_name_has_a_mark_of_its_own(connection: Connection, client: lockfast.Client) -> None:
    guard = PostgresGuard(connection)
    names = ["a'b", 'a"b', "a\\b", "a\0b", "a\nb", "a;b--", "ä€😀", "x" * 512, "%s", "{}"]
    for name in names:
        stale, fresh = usurped(client, name)
        guard.seal(fresh)
        with pytest.raises(StaleToken) as caught:
            guard.seal(stale)
        assert caught.value.name == name


def test_deleting_the_row_does_not_reopen_the_door_and_marks_cannot_be_deleted(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    stale, fresh = usurped(client, "row")
    with guard.transaction(fresh) as cursor:
        cursor.execute("DELETE FROM register WHERE id = 1")
        cursor.execute("INSERT INTO register VALUES (1, 'anew')")
    with pytest.raises(StaleToken), guard.transaction(stale):
        pytest.fail("it was let in")
    for statement in ("DELETE FROM lockfast_guard.mark", "TRUNCATE lockfast_guard.mark"):
        with pytest.raises(psycopg.Error, match="marks cannot be deleted"):
            connection.execute(statement)  # trap 30
        connection.rollback()


def test_a_transaction_may_need_two_locks_and_names_the_one_that_is_stale(
    connection: Connection, client: lockfast.Client
) -> None:
    guard = PostgresGuard(connection)
    one = lease(client, "transfer, from")
    stale, fresh = usurped(client, "transfer, to")
    with guard.transaction(one, fresh):
        pass
    with pytest.raises(StaleToken, match="transfer, to"), guard.transaction(stale, one):
        pytest.fail("it was let in")
    assert one.state is State.HELD
    assert stale.state is State.LOST
    with pytest.raises(TypeError):
        guard.seal()


def test_where_the_engine_is_in_the_same_database_the_lease_itself_can_be_asked(
    server: Postgres, connection: Connection
) -> None:
    engine.install(server.url)
    with lockfast.connect(server.url) as client:
        guard = PostgresGuard(connection)
        held = lease(client, "same")
        with guard.transaction(held, check_lease=True) as cursor:
            cursor.execute(UPDATE, ["same"])
            with server.connect() as operator:
                operator.execute("SET lock_timeout = '100ms'")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    operator.execute("DELETE FROM lockfast.claim")  # as an expiry would
                operator.execute("UPDATE lockfast.claim SET expires = expires + 1")  # a renewal
        dismissed(client, held)
        with guard.transaction(held):
            pass  # the mark alone cannot know: nobody has sealed yet
        with pytest.raises(LeaseLost) as caught, guard.transaction(held, check_lease=True):
            pytest.fail("it was let in")
        assert caught.value.reason is Loss.GONE
        assert held.state is State.LOST


def test_what_a_request_has_shown_is_as_good_as_a_lease(
    server: Postgres, client: lockfast.Client
) -> None:
    engine.install(server.url)
    stale, fresh = usurped(client, "afar")
    with psycopg.connect(server.url) as connection:
        guard = PostgresGuard(connection)
        with guard.transaction(shown(stale)) as cursor:
            cursor.execute(UPDATE, ["before"])
        guard.seal(shown(fresh))
        for enter in (guard.seal, lambda at: guard.transaction(at).__enter__()):
            with pytest.raises(StaleToken) as caught:
                enter(shown(stale))
            assert (caught.value.token, caught.value.current) == (stale.token, fresh.token)
        assert stale.state is State.HELD  # its holder is told by the answer to its request
        with guard.transaction(shown(fresh), fresh) as cursor:
            cursor.execute("SHOW idle_in_transaction_session_timeout")
            assert cursor.fetchone() == ("10s",)
        with pytest.raises(LeaseLost), guard.transaction(shown(fresh), check_lease=True):
            pytest.fail("the engine of this database does not have it")
