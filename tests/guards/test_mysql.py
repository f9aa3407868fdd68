"""The guard for MariaDB: the rule, in the transaction of the write."""

from __future__ import annotations

from typing import Any

import pymysql
import pytest

import lockfast
from lockfast import LeaseLost, Loss, StaleToken, State, Unguarded
from lockfast.guards.mark import shown
from lockfast.guards.mysql import MysqlGuard
from tests.guards.database import dismissed, lease, shared
from tests.guards.mariadb import usurped
from tests.guards.registers.mysql import SELECT, UPDATE, Link, connect
from tests.servers import MariaDB, wait_until


def value(server: MariaDB) -> str:
    return str(server.command("SELECT value FROM app.register WHERE id = 1")[0][0])


def test_a_holder_writes_many_times(mariadb: MariaDB, link: Link, client: lockfast.Client) -> None:
    guard = MysqlGuard(link)
    held = lease(client, "many")
    for each in ("one", "two", "two"):  # trap 29, and a row that is as it was
        with guard.transaction(held) as cursor:
            cursor.execute(UPDATE, [each])
    guard.seal(held)
    guard.seal(held)
    assert value(mariadb) == "two"


def test_a_refusal_names_both_tokens_and_makes_the_lease_lost(
    link: Link, client: lockfast.Client
) -> None:
    guard = MysqlGuard(link)
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
    link: Link, client: lockfast.Client
) -> None:
    guard = MysqlGuard(link)
    stale, fresh = usurped(client, "split")
    fresh.claim.ticket = stale.claim.ticket  # trap 46: both primaries of a split minted it
    guard.seal(fresh)
    with pytest.raises(StaleToken):
        guard.seal(stale)
    guard.seal(fresh)


def test_readers_raise_the_mark_to_their_floor_and_no_higher(
    mariadb: MariaDB, link: Link, client: lockfast.Client
) -> None:
    guard = MysqlGuard(link)
    first, second = shared(client, "read"), shared(client, "read")
    assert first.ticket < second.ticket
    guard.seal(second)
    guard.seal(first)
    with guard.transaction(first):
        pass
    mark = "SELECT token, id FROM lockfast_guard.mark WHERE name = 'read'"
    assert mariadb.command(mark) == [(first.ticket, b"")]
    for reader in (first, second):
        dismissed(client, reader)
    writer = shared(client, "read", weight=2**31 - 1)
    guard.seal(writer)
    assert mariadb.command(mark) == [(writer.token, writer.id.encode())]
    for reader in (first, second):
        with pytest.raises(StaleToken):
            guard.seal(reader)
    guard.seal(writer)
    dismissed(client, writer)
    third = shared(client, "read")
    guard.seal(third)  # its floor is above the writer's token, and has no id
    assert mariadb.command(mark) == [(third.fence_floor, b"")]
    with pytest.raises(StaleToken):
        guard.seal(writer)


def test_a_permit_of_a_semaphore_is_turned_away_with_an_explanation(
    link: Link, client: lockfast.Client
) -> None:
    with pytest.raises(TypeError, match="cannot be fenced"):
        MysqlGuard(link).seal(shared(client, "permits", capacity=3))


@pytest.mark.parametrize("charset", ["utf8mb4", "latin1"])
def test_any_name_has_a_mark_of_its_own(
    mariadb: MariaDB, client: lockfast.Client, charset: str
) -> None:
    names = ["a'b", 'a"b', "a\\b", "a\0b", "a\nb", "a;b--", "ä€😀", "x" * 512, "%s", "{}"]
    names += ["case", "CASE", "case ", "cäse"]  # one to a collation
    names += ["x" * 511 + "y"]
    with connect(mariadb.url, charset=charset) as connection:
        guard = MysqlGuard(connection)
        with connection.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
        for name in names:
            stale, fresh = usurped(client, name)
            guard.seal(fresh)
            with pytest.raises(StaleToken) as caught:
                guard.seal(stale)
            assert caught.value.name == name
            assert caught.value.current == fresh.token
            fresh.release()


def test_marks_cannot_be_deleted(mariadb: MariaDB) -> None:
    with pytest.raises(pymysql.Error, match="marks cannot be deleted"):  # trap 30
        mariadb.command("DELETE FROM lockfast_guard.mark")


def test_a_transaction_may_need_two_locks_and_names_the_one_that_is_stale(
    link: Link, client: lockfast.Client
) -> None:
    guard = MysqlGuard(link)
    one = lease(client, "transfer, from")
    stale, fresh = usurped(client, "transfer, to")
    with guard.transaction(one, fresh):
        pass
    with pytest.raises(StaleToken, match="transfer, to"), guard.transaction(one, stale):
        pytest.fail("it was let in")
    assert one.state is State.HELD
    assert stale.state is State.LOST
    with pytest.raises(TypeError):
        guard.seal()
    with pytest.raises(TypeError), guard.transaction():
        pytest.fail("it was let in")


def test_what_a_request_has_shown_is_as_good_as_a_lease(
    link: Link, client: lockfast.Client
) -> None:
    stale, fresh = usurped(client, "afar")
    guard = MysqlGuard(link)
    with guard.transaction(shown(stale)) as cursor:
        cursor.execute(UPDATE, ["before"])
    guard.seal(shown(fresh))
    for enter in (guard.seal, lambda at: guard.transaction(at).__enter__()):
        with pytest.raises(StaleToken) as caught:
            enter(shown(stale))
        assert (caught.value.token, caught.value.current) == (stale.token, fresh.token)
    assert stale.state is State.HELD  # its holder is told by the answer to its request
    with guard.transaction(shown(fresh), fresh) as cursor:
        cursor.execute("SELECT @@wait_timeout, @@innodb_lock_wait_timeout")
        assert cursor.fetchone() == (10, 10)
    with pytest.raises(ValueError, match="not the id"):
        guard.seal(shown(fresh)._replace(id="x', 1); DROP"))


@pytest.mark.parametrize(
    "lease",
    [
        ("x", 0, "a" * 32, 0, 0),
        ("x", -1, "a" * 32, -1, 0),
        ("x", 2**53, "a" * 32, 2**53, 0),
        ("x", 2**63 - 1, "a" * 32, 1, 0),
        ("x", 5, "a" * 32, 6, 0),
        ("x", 5, "a" * 31, 5, 0),
        ("x", 5, "a" * 33, 5, 0),
        ("x", 5, "", 5, 0),
        ("x", 5, "g" * 32, 5, 0),
        ("x", 5, None, 5, 0),
        (None, 5, "a" * 32, 5, 0),
        ("", 5, "a" * 32, 5, 0),
        ("x" * 513, 5, "a" * 32, 5, 0),
        ("x", 5, "a" * 32, 5, None),
    ],
)
def test_what_no_engine_gives_out_leaves_no_mark(
    mariadb: MariaDB, link: Link, lease: tuple[Any, ...]
) -> None:
    """A mark of 2^63 would refuse every holder for ever, and an id that is cut could be another."""
    before = mariadb.command("SELECT COUNT(*) FROM lockfast_guard.mark")
    with link.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        with pytest.raises(pymysql.Error, match="not a lease"):
            cursor.execute("CALL lockfast_guard.admit_v1(%s, %s, %s, %s, %s, 0)", lease)
    assert mariadb.command("SELECT COUNT(*) FROM lockfast_guard.mark") == before


def test_a_server_without_the_guard_says_what_to_do(client: lockfast.Client) -> None:
    with MariaDB() as server, server.connect() as connection:
        held = lease(client, "nowhere")
        guard = MysqlGuard(connection)
        with pytest.raises(Unguarded, match=r"call lockfast\.guards\.mysql\.install"):
            guard.seal(held)
        server.command("CREATE DATABASE lockfast_guard")
        with pytest.raises(Unguarded, match="install"), guard.transaction(held):
            pytest.fail("it was let in")


def test_the_value_that_is_read_within_is_the_last(
    mariadb: MariaDB, link: Link, client: lockfast.Client
) -> None:
    with MysqlGuard(link).transaction(lease(client, "reads")) as cursor:
        cursor.execute(SELECT)
        assert cursor.fetchone() == ("none",)
    assert value(mariadb) == "none"
