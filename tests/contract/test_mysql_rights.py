"""What users can do to one another on MariaDB: take and release locks, and nothing else."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from contextlib import closing

import pymysql
import pytest

import lockfast
from lockfast import EngineRefused, NotAcquired
from lockfast.engines import opener
from lockfast.engines.mysql import install, messages
from lockfast.port import Ask, Shape
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.servers import MariaDB, wait_until

FAR = 2**52  # µs by the server's clock: such a claim is never too late
USERS = ("app", "other", "operator", "a@b")


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        install(server.url)
        for user in USERS:
            server.command(f"CREATE USER '{user}'@'%'")
            install(server.url, role=f"{user}@%")
        yield server


def call(server: MariaDB, user: str, sql: bytes) -> list[tuple[object, ...]]:
    """Run a statement as a user."""
    with (
        closing(server.connect(user, "", database="lockfast")) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute(sql.decode())
        return list(cursor.fetchall())


def ask(name: str, id_: str | None = None) -> Ask:
    ident = id_ or secrets.token_hex(16)
    return Ask(ident, Shape(name, 30.0), queue=True, not_after=now() + 10.0, payload=b"")


def claim(server: MariaDB, user: str, wanted: Ask) -> list[bytes]:
    """Claim as a user, and return the words of the answer."""
    ((text,),) = call(server, user, messages.claim([wanted], [FAR], 0))
    assert isinstance(text, bytes)
    _, line = text.splitlines()
    return line.split()


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM lockfast_claim",
        "UPDATE lockfast_claim SET owner = 'app'",
        "DELETE FROM lockfast_tombstone",
        "INSERT INTO lockfast_operator VALUES ('app', '%')",
        "SELECT * FROM lockfast_operator",
        "CALL lockfast_permit_v1('other')",
        "DROP PROCEDURE lockfast_resign_v1",
    ],
)
def test_a_lock_user_cannot_touch_what_is_stored(server: MariaDB, statement: str) -> None:
    with pytest.raises(pymysql.Error, match="denied"):
        call(server, "app", statement.encode())


def test_a_lock_user_cannot_release_the_lock_of_another_user(server: MariaDB) -> None:
    with (
        lockfast.connect(server.address("other")) as client,
        client.lock("theirs", ttl=5) as lease,
        lockfast.connect(server.address("app")) as stranger,
    ):
        for until in (None, [FAR]):
            with pytest.raises(pymysql.Error, match="by user other: app may not end it") as no:
                call(server, "app", messages.resign([ask("theirs", lease.id)], until))
            assert no.value.args[0] == 1227
        with pytest.raises(EngineRefused, match=r"user other.*INSERT INTO lockfast_operator"):
            stranger.revoke(stranger.lock("theirs").holders()[0], "I want it")
        assert client.lock("theirs").holders()
        assert client.breaks("theirs") == []


@pytest.mark.parametrize("others", [0, 2], ids=["one by one", "together"])
def test_a_refused_release_releases_nothing_else(server: MariaDB, others: int) -> None:
    mine, theirs = ask("mine"), ask("of another")
    claim(server, "app", mine)
    claim(server, "other", theirs)
    every = [mine, theirs, *(ask(f"free {number}") for number in range(others))]
    every = [every[place] for place in messages.order(every)]
    with pytest.raises(pymysql.Error, match="may not end it"):
        call(server, "app", messages.resign(every, None))
    assert call(server, "app", messages.resign([mine], None)) == [(b"t",)]
    assert call(server, "other", messages.resign([theirs], None)) == [(b"t",)]


def test_a_user_can_break_the_locks_of_its_own_name(server: MariaDB) -> None:
    """Also with an @ in it, where USER() has one before the host."""
    server.command("CREATE USER IF NOT EXISTS a@'%'")
    install(server.url, role="a")
    url = server.address("a%40b")
    with lockfast.connect(url) as client, lockfast.connect(url) as second:
        lease = client.lock("its own", ttl=5).acquire()
        with (
            lockfast.connect(server.address("a")) as stranger,
            pytest.raises(EngineRefused, match="acquired by user a@b: a may not"),
        ):
            stranger.revoke(stranger.lock("its own").holders()[0], "another name")
        assert second.revoke(second.lock("its own").holders()[0], "the same name")
        assert lease.wait_lost(5)


@pytest.mark.parametrize("whose", ["other", "%"])
def test_an_operator_can_break_locks(server: MariaDB, whose: str) -> None:
    server.command("INSERT INTO lockfast.lockfast_operator VALUES ('operator', %s)", whose)
    try:
        with lockfast.connect(server.address("other")) as client:
            lease = client.lock("broken", ttl=5).acquire()
            with lockfast.connect(server.address("operator")) as operator:
                assert operator.revoke(operator.lock("broken").holders()[0], "an operator")
            # The tombstone is for the one whose lock it was: a late copy of it is refused.
            assert len(claim(server, "other", ask("broken", lease.id))) == 1
            assert client.lock("broken").holders() == []
            assert client.breaks("broken")[0].id == lease.id
            assert lease.wait_lost(5)
    finally:
        server.command("DELETE FROM lockfast.lockfast_operator")


def test_an_operator_for_one_user_cannot_break_the_locks_of_another(server: MariaDB) -> None:
    server.command("INSERT INTO lockfast.lockfast_operator VALUES ('operator', 'other')")
    try:
        with (
            lockfast.connect(server.address("app")) as client,
            client.lock("of app", ttl=5),
            lockfast.connect(server.address("operator")) as operator,
            pytest.raises(EngineRefused, match="by user app: operator may not"),
        ):
            operator.revoke(operator.lock("of app").holders()[0], "too much")
    finally:
        server.command("DELETE FROM lockfast.lockfast_operator")


def test_the_user_who_installed_can_break_every_lock(server: MariaDB) -> None:
    with lockfast.connect(server.address("app")) as client:
        lease = client.lock("installed", ttl=5).acquire()
        with lockfast.connect(server.url) as owner:
            assert owner.revoke(owner.lock("installed").holders()[0], "the owner")
        assert lease.wait_lost(5)


def test_a_lock_user_cannot_record_the_break_of_another_users_lock(server: MariaDB) -> None:
    with lockfast.connect(server.address("other")) as client, client.lock("kept") as lease:
        with pytest.raises(pymysql.Error, match="other: app may not end it"):
            call(server, "app", messages.record("kept", lease.id, b"x"))
        assert client.breaks("kept") == []


def test_a_lock_user_cannot_forbid_another_user_an_id(server: MariaDB) -> None:
    wanted = ask("free")
    call(server, "app", messages.resign([wanted], [FAR]))
    assert len(claim(server, "other", wanted)) > 1
    call(server, "other", messages.resign([wanted], None))
    assert len(claim(server, "app", wanted)) == 1  # its own tombstone counts


@pytest.mark.parametrize("name", ["wanted", "elsewhere"])
def test_a_claim_that_another_user_made_of_our_id_is_not_taken_for_ours(
    server: MariaDB, name: str
) -> None:
    ours = ask("wanted")
    theirs = ask(name, ours.id)
    engine = opener(parse(server.address("app")), Threads())()
    try:
        assert b"t" in claim(server, "other", theirs)
        standing = drive(engine.claim(ours, now() + 5))
        if name == "wanted":
            assert standing is None
        else:
            assert standing is not None
            assert standing.granted
            assert drive(engine.resign([ours], now() + 5, doubt=False)) == [True]
        assert call(server, "other", messages.resign([theirs], None)) == [(b"t",)]
    finally:
        drive(engine.close())


def test_a_grant_to_another_users_claim_of_our_id_is_not_taken_for_ours(server: MariaDB) -> None:
    """Ids are listed for every lock user, and one id may be in several buckets."""
    with (
        lockfast.connect(server.address("other")) as holding,
        holding.lock("forged", ttl=30),
        lockfast.connect(server.address("app")) as client,
    ):
        got: list[object] = []

        def wait() -> None:
            try:
                got.append(client.lock("forged", ttl=30).acquire(timeout=3))
            except NotAcquired:
                got.append(None)

        thread = threading.Thread(target=wait)
        thread.start()
        wait_until(lambda: len(holding.lock("forged").queue()) == 2, "it waits")
        waiter = holding.lock("forged").queue()[1]
        for number in range(5):  # one bucket may be that of the lock
            first, second = ask(f"trap {number}"), ask(f"trap {number}", waiter.id)
            claim(server, "other", first)
            claim(server, "other", second)
            call(server, "other", messages.resign([first], None))
            call(server, "other", messages.resign([second], None))
        thread.join()
        assert got == [None]
