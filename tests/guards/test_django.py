"""The guard for Django: `guarded` is `atomic` that only a current lease gets into."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import nullcontext

import psycopg
import pytest
from django.db import DatabaseError, connections, transaction

import lockfast
from lockfast import LeaseLost, StaleToken, State, Unguarded
from lockfast.guards.django import guarded, seal
from lockfast.guards.mark import shown
from lockfast.guards.postgres import PostgresGuard
from tests.guards import story
from tests.guards.database import database, lease, usurped
from tests.guards.registers.django import Invoice, Model, Row, configure
from tests.servers import Postgres, Redis


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with database() as server:
        server.command("CREATE TABLE invoice (id int PRIMARY KEY, paid bool NOT NULL)")
        server.command("INSERT INTO invoice SELECT n, false FROM generate_series(1, 9) n")
        configure(server.url)
        yield server
        connections.close_all()


@pytest.fixture
def client(server: Postgres) -> Iterator[lockfast.Client]:
    server.command("UPDATE register SET value = 'none'")
    with lockfast.connect("memory://") as client:
        yield client


def value() -> str:
    return str(Row.objects.get(pk=1).value)


def set_value(new: str) -> None:
    row = Row.objects.get(pk=1)
    row.value = new
    row.save()


def test_a_holder_that_was_paused_is_refused_and_the_next_ones_value_stands(
    redis: Redis, server: Postgres
) -> None:
    story.refused(redis.url, Model, server.url)


def test_with_the_guard_switched_off_the_paused_holder_overwrites(
    redis: Redis, server: Postgres
) -> None:
    story.corrupted(redis.url, Model, server.url, "bare")


def test_a_refusal_makes_the_lease_lost_and_leaves_the_connection_usable(
    client: lockfast.Client,
) -> None:
    stale, fresh = usurped(client, "refusal")
    seal(fresh)
    with pytest.raises(StaleToken) as caught, guarded(stale):
        pytest.fail("it was let in")
    assert caught.value.current == fresh.token
    assert stale.state is State.LOST
    with pytest.raises(StaleToken):
        seal(stale)
    for each in "abcdefg":  # often enough for psycopg to prepare what is the same each time
        with guarded(fresh):
            set_value(each)
    assert value() == "g"


def test_the_bodys_error_rolls_back(client: lockfast.Client) -> None:
    with pytest.raises(ZeroDivisionError), guarded(lease(client, "rollback")):
        set_value("never")
        raise ZeroDivisionError
    assert value() == "none"


def test_it_nests_as_atomic_does(client: lockfast.Client) -> None:
    stale, fresh = usurped(client, "nested")
    seal(fresh)
    with transaction.atomic():
        with guarded(fresh):
            set_value("nested")
        with pytest.raises(StaleToken), guarded(stale):
            pytest.fail("it was let in")
        assert value() == "nested"  # the savepoint alone was rolled back
        with pytest.raises(RuntimeError, match="durable"):
            seal(fresh)
        with pytest.raises(RuntimeError, match="durable"), guarded(fresh, durable=True):
            pytest.fail("it was let in")
    assert value() == "nested"


@pytest.mark.parametrize("how", ["COMMIT", "ROLLBACK", "driver"])
@pytest.mark.parametrize("nested", [False, True])
def test_work_behind_a_commit_in_the_block_is_refused_before_it_is_done(
    client: lockfast.Client,
    how: str,
    nested: bool,  # noqa: FBT001  # a parameter
) -> None:
    before = value()
    held = lease(client, f"{how} {nested}")
    outer = transaction.atomic() if nested else nullcontext()
    with pytest.raises((Unguarded, DatabaseError)), outer, guarded(held):
        if how == "driver":
            transaction.get_connection().connection.commit()
        else:
            with connections["default"].cursor() as cursor:
                cursor.execute(how)
        with pytest.raises(Unguarded):
            set_value("stale")
        with pytest.raises(Unguarded), connections["default"].cursor() as cursor:
            cursor.execute("COMMIT")
    assert value() == before
    with guarded(held):
        set_value(before)


@pytest.mark.parametrize("how", ["COMMIT", "ROLLBACK"])
def test_a_transaction_that_ends_within_its_block_is_not_taken_for_a_commit(
    client: lockfast.Client, how: str
) -> None:
    with (
        pytest.raises(Unguarded, match="had ended"),
        guarded(lease(client, f"ended by {how}")),
        connections["default"].cursor() as cursor,
    ):
        cursor.execute(how)


@pytest.mark.parametrize("chain", ["COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "COMMIT; BEGIN"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_second_transaction_that_the_block_has_begun_by_itself_is_not_committed(
    client: lockfast.Client,
    chain: str,
    nested: bool,  # noqa: FBT001  # a parameter
) -> None:
    before = value()
    held = lease(client, f"{chain} {nested}")
    outer = transaction.atomic() if nested else nullcontext()
    with pytest.raises((Unguarded, DatabaseError)), outer, guarded(held):
        with connections["default"].cursor() as cursor:
            cursor.execute(chain)
        set_value("stale")
    assert value() == before
    with guarded(held):
        set_value(before)


def test_a_block_in_a_block_does_not_vouch_for_the_outer_ones_transaction(
    client: lockfast.Client,
) -> None:
    before = value()
    outer, inner = lease(client, "outer"), lease(client, "inner")
    with guarded(outer):
        with guarded(inner):
            set_value("inner")
        set_value("outer")
    assert value() == "outer"
    with pytest.raises(Unguarded, match="had ended"), guarded(outer):
        with connections["default"].cursor() as cursor:
            cursor.execute("COMMIT AND CHAIN")
        with pytest.raises(Unguarded, match="had ended"), guarded(inner):
            set_value("stale")
        set_value("stale")
    assert value() == "outer"
    with guarded(outer):
        set_value(before)


def test_djangos_own_commit_is_refused_in_the_block(client: lockfast.Client) -> None:
    with (
        pytest.raises(transaction.TransactionManagementError),
        guarded(lease(client, "commit")),
    ):
        transaction.commit()


def test_a_lease_that_its_own_clock_has_ended_does_not_write(client: lockfast.Client) -> None:
    held = lease(client, "over")
    held.claim.until = 0.0
    with pytest.raises(LeaseLost), guarded(held):
        pytest.fail("it was let in")


def test_a_block_that_slept_through_the_end_of_its_lease_is_told_so(
    client: lockfast.Client,
) -> None:
    held = lease(client, "slept")
    with pytest.raises(LeaseLost), guarded(held):
        with connections["default"].cursor() as cursor:
            cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 20")
        time.sleep(0.2)
        held.claim.until = 0.0
        set_value("never")
    assert value() == "none"


def test_a_fenced_model_is_saved_and_deleted_only_under_its_own_lock(
    client: lockfast.Client,
) -> None:
    one = Invoice.objects.get(pk=1)
    assert one.lock_name() == "invoice:1"
    with guarded(lease(client, "invoice:1")):
        one.paid = True
        one.save()
    other = lease(client, "invoice:2")
    for write in (one.save, one.delete):
        with pytest.raises(Unguarded, match="invoice:1"):
            write()
        with pytest.raises(Unguarded), guarded(other):
            write()
    with pytest.raises(Unguarded):
        Invoice.objects.create(pk=10)
    with guarded(lease(client, "invoice:10")):
        Invoice.objects.create(pk=10).delete()
    with guarded(again := lease(client, "invoice:3")), guarded(again, lease(client, "invoice:4")):
        Invoice.objects.get(pk=3).save(using="default")
        Invoice.objects.get(pk=4).delete(using="default")


def test_a_database_that_is_named_by_its_place_is_not_taken_for_the_default(
    client: lockfast.Client,
) -> None:
    """`save(force_insert, force_update, using)` and `delete(using)`: old code says no names."""
    with guarded(lease(client, "invoice:50")):
        one = Invoice.objects.create(pk=50)
        with pytest.raises(Unguarded, match="invoice:50"):
            one.save(False, False, "elsewhere")  # noqa: FBT003  # as old code does
        with pytest.raises(Unguarded, match="invoice:50"):
            one.delete("elsewhere")
        one.delete("default")


def test_what_goes_past_the_model_is_stopped_by_the_trigger(
    server: Postgres, client: lockfast.Client
) -> None:
    Invoice.objects.filter(pk=5).update(paid=True)  # the mixin cannot see it
    server.command("SELECT lockfast_guard.protect_v1('invoice', 'invoice:{id}')")
    with pytest.raises(DatabaseError, match="needs the token of the lock invoice:5"):
        Invoice.objects.filter(pk=5).update(paid=False)
    with pytest.raises(Unguarded), guarded(lease(client, "invoice:6")):
        Invoice.objects.filter(pk=5).update(paid=False)
    with guarded(lease(client, "invoice:5")):
        Invoice.objects.filter(pk=5).update(paid=False)
    server.command("SELECT lockfast_guard.unprotect_v1('invoice')")


def test_a_serialization_failure_is_a_refusal_if_the_mark_says_so_and_else_the_callers(
    server: Postgres, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "40001")

    def disturbed() -> None:
        with connections["default"].cursor() as cursor:
            cursor.execute("SELECT 1")
        value()
        server.command("UPDATE register SET value = 'somebody else'")
        Row.objects.filter(pk=1).update(value="late")

    connections["default"].close()
    connections.settings["default"]["OPTIONS"]["isolation_level"] = (
        psycopg.IsolationLevel.REPEATABLE_READ
    )
    try:
        with pytest.raises(DatabaseError, match="could not serialize"), guarded(stale):
            disturbed()
        stale.ensure_held()
        with pytest.raises(StaleToken), guarded(stale):
            try:
                disturbed()
            except DatabaseError:
                transaction.get_connection().connection.rollback()  # lets go of the mark
                with psycopg.connect(server.url) as connection:
                    PostgresGuard(connection).seal(fresh)
                raise
    finally:
        del connections.settings["default"]["OPTIONS"]["isolation_level"]
        connections["default"].close()


def test_what_a_request_has_shown_is_as_good_as_a_lease(client: lockfast.Client) -> None:
    stale, fresh = usurped(client, "afar")
    seal(shown(fresh))
    with guarded(shown(fresh)):
        set_value("afar")
    with pytest.raises(StaleToken), guarded(shown(stale)):
        pytest.fail("it was let in")
