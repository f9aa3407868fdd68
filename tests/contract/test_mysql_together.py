"""Claims and resignations that MariaDB applies together: what keeps two from being granted.

As in test_mysql_rules.py, each test tries the procedures as they are, and a copy from which a rule
was taken away. A batch of three or more goes together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import closing

import pymysql
import pytest

from lockfast.engines.mysql import messages, procedures
from lockfast.port import Ask
from tests.contract.test_mysql_rules import (
    FAR,
    HOUR,
    Database,
    ask,
    behind,
    early,
    holds,
    instead,
    two_names,
    without,
)
from tests.servers import MariaDB


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        yield server


def names(count: int, place: int) -> list[str]:
    """Return names in one bucket."""
    every = (f"name {number}" for number in itertools.count())
    return list(itertools.islice((n for n in every if messages.bucket(n) == place), count))


def batch(*asks: Ask) -> list[Ask]:
    """Make a batch that goes together: these, and others that are always free."""
    others = [ask(f"free {number}") for number in range(3)]
    every = [*asks, *others]
    return [every[place] for place in messages.order(every)]


def granted(database: Database, *asks: Ask, late: int = FAR) -> list[bool]:
    """Make claims in a batch, and return which of them were granted."""
    every = batch(*asks)
    answers = dict(zip([each.id for each in every], database.claim(*every, late=late), strict=True))
    return [answers[each.id][2:3] == [b"t"] for each in asks]


def test_a_batch_sees_what_was_committed_while_it_waited(server: MariaDB) -> None:
    _, second = two_names()

    def trial(database: Database) -> bool:
        holder = (
            "INSERT INTO lockfast_claim VALUES ("
            f"{messages.bucket(second)}, x'{ask(second).id}', '{second}', 1, 0, 1, 1, 1, "
            f"30000000, 10000000, {FAR}, 1, 1, 0, 1, '', 'root')"
        )
        return behind(database, 0.0, lambda: granted(database, ask(second)), holder.encode()) == [
            False
        ]

    holds(server, trial, without("SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"))
    assert not trial(Database(server, instead(" % 1024 FOR UPDATE;", " % 1024;")))


def test_a_batch_that_waited_for_too_long_is_dead(server: MariaDB) -> None:
    _, second = two_names()

    def trial(database: Database) -> bool:
        late = database.now() + 1_500_000
        found = behind(database, 1.6, lambda: granted(database, ask(second), late=late), b"")
        return found == [False]

    start = "    -- Claims on names without claims"
    now = f"    SET v_now = {procedures.NOW};\n"
    read = f"{now}    SELECT GROUP_CONCAT(\n      IF(v_distinct AND k.line"

    def early(sql: str) -> str:
        """Read the clock before the buckets are locked."""
        sql = instead(read, read.removeprefix(now))(sql)
        return instead(start, now + start)(sql)

    holds(server, trial, early)


def test_a_lock_that_is_held_is_not_granted_in_a_batch(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        assert granted(database, ask("a")) == [True]
        return granted(database, ask("a"), ask("b")) == [False, True]

    rule = (
        "        AND NOT EXISTS (SELECT 1 FROM lockfast_claim o FORCE INDEX (queue) "
        f"WHERE o.name = {procedures.parts()['NAME']})\n"
    )
    holds(server, trial, without(rule))


def test_a_name_that_comes_twice_in_a_batch_is_granted_once(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        return sorted(granted(database, ask("a"), ask("a"))) == [False, True]

    holds(server, trial, instead("IF(v_distinct AND k.line", "IF(k.line"))


def test_an_id_that_comes_twice_in_a_batch_is_dead_on_the_second_name(server: MariaDB) -> None:
    first, second = names(2, messages.bucket("a"))

    def trial(database: Database) -> bool:
        mine, again = ask(first), ask(second)
        again.id = mine.id
        try:
            answers = database.claim(*batch(mine, again))
        except pymysql.IntegrityError:
            return False
        granted = [words[2:3] == [b"t"] for words in answers]
        return granted.count(False) == 1

    twice = f" AND COUNT(DISTINCT {procedures.parts()['ID']}) = v_count, MIN("
    holds(server, trial, instead(twice, ", MIN("))


def test_an_id_that_was_withdrawn_is_dead_in_a_batch(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        mine = ask("a")
        database.run(messages.resign([mine], [FAR]))
        return granted(database, mine) == [False]

    rule = "        AND NOT EXISTS (SELECT 1 FROM lockfast_tombstone t WHERE t.b = k.b)\n"
    holds(server, trial, without(rule))


def test_a_batch_of_resignations_in_doubt_forbids_the_ids(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        every = batch(ask("a"))
        database.claim(*every)
        database.run(messages.resign(every, [FAR] * len(every)))
        return database.run("SELECT COUNT(*) FROM lockfast_tombstone") == [(len(every),)]

    rule = f"{procedures.parts()['UNTIL']} = 0 AND c.owner"
    holds(server, trial, instead(rule, "c.owner"))


def test_a_batch_notices_that_the_clock_went_back(server: MariaDB) -> None:
    other, mine = names(2, messages.bucket("a"))

    def trial(database: Database) -> bool:
        database.claim(ask(other))
        ahead = database.now() + HOUR
        database.run(f"UPDATE lockfast_claim SET expires = {ahead + 30_000_000}")
        database.run(f"UPDATE lockfast_bucket SET seen = {ahead}")
        granted(database, ask(mine))
        ((expires,),) = database.run(f"SELECT expires FROM lockfast_claim WHERE name = '{other}'")
        return int(str(expires)) < ahead

    holds(server, trial, without("k.seen <= v_now AND "))


def test_a_batch_removes_what_has_expired(server: MariaDB) -> None:
    other, mine = names(2, messages.bucket("a"))

    def trial(database: Database) -> bool:
        database.claim(ask(other))
        database.run("UPDATE lockfast_claim SET expires = 1")
        database.run("UPDATE lockfast_bucket SET due = 1")
        granted(database, ask(mine))
        return database.run(f"SELECT 1 FROM lockfast_claim WHERE name = '{other}'") == []

    holds(server, trial, without(" AND k.due > v_now"))


def test_a_batch_notes_when_its_claims_expire(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        for _ in range(2):  # the first one may find that the buckets have never been used
            every = batch(ask("a", ttl=20.0))
            database.claim(*every)
            database.run(messages.resign(every, None))
        database.run(f"UPDATE lockfast_bucket SET due = {FAR}")
        database.claim(*batch(ask("a", ttl=20.0)))
        return early(database)

    holds(server, trial, without(", k.due = LEAST(k.due, v_now + v_ttl)"))
    assert not trial(Database(server, instead(" = v_count, MIN(", " = v_count, MAX(")))


def test_a_promotion_raises_the_tokens_of_a_batch(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        database.run("UPDATE lockfast_bucket SET line = 'before'")
        words = database.claim(*batch())
        return all(int(each[1]) > database.now() + HOUR - 60_000_000 for each in words)

    holds(server, trial, without("k.line = v_line AND "))


def test_the_tokens_of_a_bucket_rise_within_a_batch_and_after_it(server: MariaDB) -> None:
    first, *rest = names(4, messages.bucket("a"))

    def trial(database: Database) -> bool:
        # Ahead of the clock, so that the counter alone keeps the order.
        database.run(f"UPDATE lockfast_bucket SET last = {database.now() + HOUR}")
        words = database.claim(*(ask(name) for name in rest))
        words += database.claim(ask(first))
        tokens = [int(each[1]) for each in words]
        return tokens == sorted(set(tokens))

    holds(server, trial, without(" + v_count - 1"))
    same = instead("v_now + p_base) + r.n, 16", "v_now + p_base), 16")
    assert not trial(Database(server, same))


@pytest.mark.parametrize("operation", ["claim", "resign"])
def test_a_batch_writes_the_rows_of_its_buckets(server: MariaDB, operation: str) -> None:
    def trial(database: Database) -> bool:
        every = batch(ask("a"))
        if operation == "resign":
            database.claim(*every)
        where = f"WHERE b = {messages.bucket('a')}"
        database.run(f"UPDATE lockfast_bucket SET seen = 0 {where}")
        again = {
            "claim": messages.claim(every, [FAR] * len(every), 0),
            "resign": messages.resign(every, None),
        }
        database.run(again[operation])
        return database.run(f"SELECT seen FROM lockfast_bucket {where}") != [(0,)]

    line = "v_count - 1, k.seen = v_now" if operation == "claim" else " SET k.seen = v_now"
    holds(server, trial, instead(line, line.replace("= v_now", "= k.seen")))


def test_a_batch_of_resignations_grants_the_waiter(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        holder, waiter = ask("a"), ask("a")
        every = batch(holder)
        database.claim(*every)
        database.claim(waiter)
        database.run(messages.resign(every, None))
        return database.run("SELECT waits FROM lockfast_claim WHERE name = 'a'") == [(0,)]

    rule = (
        "        AND NOT EXISTS (\n"
        "          SELECT 1 FROM lockfast_claim o FORCE INDEX (queue) "
        "WHERE o.name = c.name AND o.id <> c.id)\n"
    )
    holds(server, trial, without(rule))


def test_a_claim_that_comes_twice_in_a_batch_is_resigned_once(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        every = batch(ask("a"))
        database.claim(*every)
        ((text,),) = database.run(messages.resign([every[0], *every], None))
        return text == b"tf" + b"t" * (len(every) - 1)

    holds(server, trial, instead("IF(v_distinct AND k.line", "IF(k.line"))


def test_a_batch_of_resignations_after_a_promotion_lowers_no_token(server: MariaDB) -> None:
    """As in test_mysql_rules.py for one: the time before the promotion is not forgotten."""
    place, half = messages.bucket("a"), HOUR // 2
    mine, other = names(2, place)

    def token(database: Database) -> int:
        return int(database.claim(ask(other))[0][1])

    def trial(database: Database) -> bool:
        every = batch(ask(mine))
        database.claim(*every)
        before = database.now() - half
        heard = f"last = {before + HOUR}, seen = {before}, line = 'first' WHERE b = {place}"
        database.run(f"UPDATE lockfast_bucket SET {heard}")
        missed = token(database)
        database.run(f"UPDATE lockfast_bucket SET {heard}")
        database.run(messages.resign(every, None))
        return token(database) > missed

    holds(server, trial, instead("v_distinct AND k.line = v_line AND CAST", "v_distinct AND CAST"))


def test_a_batch_resigns_no_claim_of_another_name(server: MariaDB) -> None:
    other, mine = names(2, messages.bucket("a"))

    def trial(database: Database) -> bool:
        held, wrong = ask(other), ask(mine)
        wrong.id = held.id
        database.claim(held)
        database.run(messages.resign(batch(wrong), None))
        return database.run(f"SELECT 1 FROM lockfast_claim WHERE name = '{other}'") == [(1,)]

    rule = f" AND c.name = {procedures.parts()['NAME']} AND c.kind"
    holds(server, trial, instead(rule, " AND c.kind"))


@pytest.mark.parametrize("setting", ["sql_select_limit = 1", "group_concat_max_len = 32"])
def test_no_setting_of_a_session_cuts_a_batch(server: MariaDB, setting: str) -> None:
    database = Database(server)
    every = batch(ask("a"))
    answers = database.claim(*every, before=f"SET SESSION {setting}")
    assert [words[2] for words in answers] == [b"t"] * len(every)
    assert database.run("SELECT COUNT(*) FROM lockfast_claim") == [(len(every),)]
    sql = messages.resign(every, None)
    assert database.run(sql, f"SET SESSION {setting}") == [(b"t" * len(every),)]
    assert database.run("SELECT 1 FROM lockfast_claim") == []


@pytest.mark.parametrize("operation", ["claim", "resign"])
def test_batches_do_not_wait_for_each_other_to_read_their_records(
    server: MariaDB, operation: str
) -> None:
    def trial(database: Database) -> bool:
        every = batch(ask("a"))
        if operation == "resign":
            database.claim(*every)
        with closing(database.connect()) as other, other.cursor() as cursor:
            cursor.execute("START TRANSACTION")  # as another batch reads them, at most
            cursor.execute("SELECT n FROM lockfast_number LOCK IN SHARE MODE")
            try:
                if operation == "resign":
                    return database.run(messages.resign(every, None)) == [(b"t" * len(every),)]
                return granted(database, ask("a")) == [True]
            except pymysql.OperationalError:
                return False

    inside = " ORDER BY n.n LIMIT 1024) r"
    holds(server, trial, instead(inside, f"{inside.removesuffix(') r')} FOR UPDATE) r"))
