"""Each rule of the procedures on MariaDB, and what goes wrong without it.

Each test tries the procedures as they are, and a copy in another database from which the rule was
taken away. The trial must find the fault there.
"""

from __future__ import annotations

import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime

import pymysql
import pytest

from lockfast.engines.mysql import messages, procedures
from lockfast.port import Ask, Shape
from tests.servers import MariaDB, ServerClock, wait_until

FAR = 2**52  # µs by the server's clock: such a claim is never too late
HOUR = 3_600_000_000
Mutation = Callable[[str], str]


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        yield server


def without(*texts: str) -> Mutation:
    """Take these lines out of the procedures."""

    def mutate(sql: str) -> str:
        for text in texts:
            assert text in sql, f"the procedures do not contain {text!r}"
            sql = sql.replace(text, "")
        return sql

    return mutate


def instead(old: str, new: str) -> Mutation:
    """Replace a line of the procedures."""

    def mutate(sql: str) -> str:
        assert old in sql, f"the procedures do not contain {old!r}"
        return sql.replace(old, new)

    return mutate


class Database:
    """A database with the procedures, or with a mutant of them."""

    def __init__(self, server: MariaDB, mutate: Mutation | None = None) -> None:
        self._server = server
        self._name = f"d{secrets.token_hex(6)}"
        server.command(f"CREATE DATABASE {self._name}")
        text = procedures.text(mariadb=True)
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in procedures.statements(mutate(text) if mutate else text):
                cursor.execute(statement)

    def connect(self) -> pymysql.connections.Connection[pymysql.cursors.Cursor]:
        connection = self._server.connect(database=self._name)
        with connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 5")
        return connection

    def run(self, sql: str | bytes, *before: str) -> list[tuple[object, ...]]:
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for each in before:
                cursor.execute(each)
            cursor.execute(sql if isinstance(sql, str) else sql.decode())
            return list(cursor.fetchall()) if cursor.description else []

    def claim(self, *asks: Ask, late: int = FAR, before: str = "DO 0") -> list[list[bytes]]:
        """Make claims, and return the words of each answer."""
        ((text,),) = self.run(messages.claim(asks, [late] * len(asks), 0), before)
        assert isinstance(text, bytes)
        first, *rest = [line.split() for line in text.splitlines()]
        now, tickets = first
        lines = iter(rest)
        each = [tickets[at : at + 16] for at in range(0, len(tickets), 16)]
        return [next(lines) if b"-" in one else [now, one, b"t"] for one in each]

    def wait_for_waiter(self) -> None:
        """Wait until a transaction waits for a lock."""

        def waits() -> bool:
            time.sleep(0.15)  # the server renews this table only if nobody reads it for 0.1 s
            rows = self.run(
                "SELECT 1 FROM information_schema.INNODB_TRX WHERE trx_state = 'LOCK WAIT'"
            )
            return bool(rows)

        wait_until(waits, "a transaction waits")

    def now(self) -> int:
        ((micros,),) = self.run(f"SELECT {procedures.NOW}")
        return int(str(micros))


def ask(name: str, ttl: float = 30.0) -> Ask:
    return Ask(secrets.token_hex(16), Shape(name, ttl), queue=True, not_after=0.0, payload=b"")


def number_of(connection: pymysql.connections.Connection[pymysql.cursors.Cursor]) -> int:
    """Return the number by which the server knows a connection."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT CONNECTION_ID()")
        ((number,),) = cursor.fetchall()
    return int(number)


def two_names() -> tuple[str, str]:
    """Return two names, the first in a lower bucket."""
    first, second = sorted(("a", "b"), key=messages.bucket)
    return first, second


def holds(server: MariaDB, trial: Callable[[Database], bool], mutate: Mutation) -> None:
    """Check that a trial succeeds with the rule, and fails without it."""
    assert trial(Database(server))
    assert not trial(Database(server, mutate)), "the mutant was not found"


# --- what the transaction sees ------------------------------------------------------------------


def behind(database: Database, seconds: float, work: Callable[[], object], grant: bytes) -> object:
    """Do the work while another transaction holds the second name's bucket, and adds a claim."""
    _, second = two_names()
    found: list[object] = []

    def do() -> None:
        with suppress(pymysql.OperationalError):
            found.append(work())

    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("START TRANSACTION")
        cursor.execute(
            "SELECT * FROM lockfast_bucket WHERE b = %s FOR UPDATE", [messages.bucket(second)]
        )
        thread = threading.Thread(target=do)
        thread.start()
        database.wait_for_waiter()
        time.sleep(seconds)
        if grant:
            cursor.execute(grant.decode())
        connection.commit()
    thread.join()
    return found[0] if found else None


def test_a_batch_sees_what_was_committed_while_it_waited(server: MariaDB) -> None:
    first, second = two_names()

    def trial(database: Database) -> bool:
        holder = (
            "INSERT INTO lockfast_claim VALUES ("
            f"{messages.bucket(second)}, x'{secrets.token_hex(16)}', '{second}', 1, 0, 1, 1, 1, "
            f"30000000, 10000000, {FAR}, 1, 1, 0, 1, '', 'root')"
        )
        words = behind(
            database, 0.0, lambda: database.claim(ask(first), ask(second)), holder.encode()
        )
        assert isinstance(words, list)
        return [each[2] for each in words] == [b"t", b"f"]

    holds(server, trial, without("SET TRANSACTION ISOLATION LEVEL READ COMMITTED;"))


def test_a_claim_that_waited_for_too_long_is_dead(server: MariaDB) -> None:
    _, second = two_names()

    def trial(database: Database) -> bool:
        late = database.now() + 1_500_000
        words = behind(database, 1.6, lambda: database.claim(ask(second), late=late), b"")
        assert isinstance(words, list)
        return len(words[0]) == 1

    def early(sql: str) -> str:
        """Read the clock before the bucket is locked."""
        read = f"SET v_now = {procedures.NOW};"
        sql = without(f"      {read}\n")(sql)
        start = "SET v_none = FALSE, v_locked = v_b;"
        return instead(start, f"{start} {read}")(sql)

    holds(server, trial, early)


def test_a_lock_wait_that_timed_out_leaves_nothing(server: MariaDB) -> None:
    first, second = two_names()

    def trial(database: Database) -> bool:
        with closing(database.connect()) as kept, kept.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 1")
            sql = messages.claim([ask(first), ask(second)], [FAR, FAR], 0).decode()
            behind(database, 1.2, lambda: cursor.execute(sql), b"")
            try:  # from another connection, while the first is still open
                database.run(
                    f"SELECT * FROM lockfast_bucket WHERE b = {messages.bucket(first)} "
                    "FOR UPDATE NOWAIT"
                )
            except pymysql.OperationalError:
                return False
            return database.run("SELECT name FROM lockfast_claim") == []

    holds(server, trial, instead("    ROLLBACK;\n    RESIGNAL;", "    RESIGNAL;"))


def test_a_claim_waits_for_no_claim_of_another_bucket(server: MariaDB) -> None:
    first, second = two_names()

    def trial(database: Database) -> bool:
        database.claim(ask(second))
        with closing(database.connect()) as other, other.cursor() as cursor:
            # As the procedures do: without gap locks.
            cursor.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
            cursor.execute("START TRANSACTION")
            cursor.execute(
                "UPDATE lockfast_claim SET expires = expires + 1 WHERE name = %s", [second]
            )
            try:
                return database.claim(ask(first))[0][2] == b"t"
            except pymysql.OperationalError:
                return False

    conditions = instead(
        "IF v_seen > v_now OR v_due <= v_now THEN",
        # In the condition of an IF, a query locks what it reads.
        "IF EXISTS (SELECT 1 FROM lockfast_claim c FORCE INDEX (expiry) "
        "WHERE c.b = v_b AND c.expires <= v_now) THEN",
    )
    holds(server, trial, conditions)


@pytest.mark.parametrize("operation", ["claim", "renew", "resign"])
def test_every_operation_writes_the_row_of_its_bucket(server: MariaDB, operation: str) -> None:
    def trial(database: Database) -> bool:
        mine = ask("a")
        database.claim(mine)
        where = f"WHERE b = {messages.bucket('a')}"
        database.run(f"UPDATE lockfast_bucket SET seen = 0 {where}")
        again = {
            "claim": messages.claim([mine], [FAR], 0),
            "renew": messages.renew([mine]),
            "resign": messages.resign([mine], None),
        }
        database.run(again[operation])
        return database.run(f"SELECT seen FROM lockfast_bucket {where}") != [(0,)]

    if operation == "claim":
        lines = (
            "UPDATE lockfast_bucket SET last = v_ticket, seen = v_now, due = v_due, line = v_line "
            "WHERE b = v_b;"
        )
    else:
        lines = procedures.parts()["SEEN"]
    holds(server, trial, without(lines))


# --- what has expired -----------------------------------------------------------------------------


def early(database: Database) -> bool:
    """Return whether no bucket's `due` is later than what expires there first."""
    late = "SELECT 1 FROM lockfast_bucket k JOIN {} x ON x.b = k.b WHERE x.{} < k.due"
    return not any(
        database.run(late.format(f"lockfast_{table}", column))
        for table, column in (("claim", "expires"), ("tombstone", "until"))
    )


def test_a_holder_that_has_expired_makes_way(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        database.claim(ask("a", ttl=0.2))
        time.sleep(0.25)
        return database.claim(ask("a"))[0][2] == b"t"

    line = "v_due = LEAST(v_due, v_now + LEAST(v_ttl, v_wait_ttl));"
    holds(server, trial, instead(line, "v_due = v_due;"))


def test_a_bucket_that_was_lost_and_restored_is_looked_through(server: MariaDB) -> None:
    restore = next(
        each
        for each in procedures.statements(procedures.text(mariadb=True))
        if "INSERT IGNORE INTO lockfast_bucket" in each
    )

    def trial(database: Database, sql: str) -> bool:
        database.run("DELETE FROM lockfast_bucket")
        database.run(sql)
        return early(database)

    database = Database(server)
    database.claim(ask("a"))
    empty = " * (NOT EXISTS (SELECT 1 FROM lockfast_claim))"
    assert trial(database, restore)
    assert not trial(database, restore.replace(empty, ""))
    database = Database(server)
    database.run(messages.resign([ask("a")], [FAR]))
    empty = " * (NOT EXISTS (SELECT 1 FROM lockfast_tombstone))"
    assert trial(database, restore)
    assert not trial(database, restore.replace(empty, ""))


def test_a_claim_notes_when_it_expires_also_while_it_waits(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        long, short = ask("a", ttl=300.0), ask("a", ttl=300.0)
        assert short.shape.wait_ttl < short.shape.ttl
        database.claim(long)
        database.claim(short)
        return early(database)

    holds(server, trial, instead("v_now + LEAST(v_ttl, v_wait_ttl)", "v_now + v_ttl"))


def test_a_tombstone_notes_when_it_expires(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        mine = ask("a")
        database.claim(mine)
        database.run(f"UPDATE lockfast_bucket SET due = {FAR}")
        database.run(messages.resign([mine], [FAR]))
        return early(database)

    line = "UPDATE lockfast_bucket SET due = LEAST(due, v_until) WHERE b = v_b;"
    holds(server, trial, without(line))


def test_after_the_clock_went_back_claims_expire_in_time(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        database.claim(ask("a"))
        ahead = database.now() + HOUR
        database.run(f"UPDATE lockfast_claim SET expires = {ahead}")
        database.run(f"UPDATE lockfast_bucket SET seen = {ahead}, due = {ahead}")
        database.run(messages.renew([ask("a")]))
        return early(database)

    line = "IF v_seen > v_now OR v_due <= v_now THEN"
    holds(server, trial, instead(line, "IF v_due <= v_now THEN"))


# --- tokens -------------------------------------------------------------------------------------


def test_a_user_cannot_mint_tokens_of_the_future(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        words = database.claim(ask("a"), before="SET timestamp = 2000000000")
        return int(words[0][1]) < database.now() + HOUR

    holds(server, trial, without("SET timestamp = DEFAULT;"))


def test_a_promotion_raises_tokens_by_an_hour_once(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        database.run("UPDATE lockfast_bucket SET line = 'before'")
        tokens = [int(database.claim(ask("a"))[0][1])]
        database.run("DELETE FROM lockfast_claim")
        tokens.append(int(database.claim(ask("a"))[0][1]))
        ahead = tokens[0] - database.now()
        return HOUR - 60_000_000 < ahead <= HOUR and tokens[1] == tokens[0] + 1

    holds(server, trial, instead(", line = v_line WHERE", " WHERE"))
    raised = (
        "SET v_last = GREATEST(v_last + GREATEST(v_now - v_seen, 0), v_now + p_base) + 3600000000, "
        "v_was = v_line;"
    )
    assert not trial(Database(server, instead(raised, "SET v_was = v_line;")))


def test_a_promotion_that_missed_the_one_before_raises_tokens_higher(server: MariaDB) -> None:
    def token(database: Database) -> int:
        return int(database.claim(ask("a"))[0][1])

    def trial(database: Database) -> bool:
        # It was raised not long ago, so its counter is ahead of every clock.
        database.run("UPDATE lockfast_bucket SET line = 'first'")
        token(database)
        ((last, seen),) = database.run(
            f"SELECT last, seen FROM lockfast_bucket WHERE b = {messages.bucket('a')}"
        )
        database.run("UPDATE lockfast_bucket SET line = 'second'")
        missed = token(database)
        # None of that has reached the next to be promoted.
        database.run(f"UPDATE lockfast_bucket SET last = {last}, seen = {seen}, line = 'second'")
        return token(database) > missed

    holds(server, trial, instead("v_last + GREATEST(v_now - v_seen, 0)", "v_last"))


@pytest.mark.parametrize("operation", ["renew", "resign"])
def test_what_comes_before_the_first_claim_after_a_promotion_lowers_no_token(
    server: MariaDB, operation: str
) -> None:
    """A release that is sent again, for example. The torture found it: mysql, seed 1."""
    mine, half = ask("a"), HOUR // 2

    def token(database: Database) -> int:
        return int(database.claim(ask("a"))[0][1])

    def trial(database: Database) -> bool:
        token(database)
        where = f"WHERE b = {messages.bucket('a')}"
        # A promotion before has raised the last token, half an hour ago.
        before = database.now() - half
        heard = f"last = {before + HOUR}, seen = {before}, line = 'first' {where}"
        database.run(f"UPDATE lockfast_bucket SET {heard}")
        missed = token(database)
        # None of that has reached the next to be promoted.
        database.run(f"UPDATE lockfast_bucket SET {heard}")
        for _ in range(2):
            database.run(
                messages.renew([mine]) if operation == "renew" else messages.resign([mine], None)
            )
        return token(database) > missed

    seen = "UPDATE lockfast_bucket SET seen = v_now WHERE b = v_b;"
    holds(server, trial, instead(procedures.parts()["SEEN"], seen))


def test_a_new_installation_does_not_count_as_a_promotion(server: MariaDB) -> None:
    database = Database(server)
    assert int(database.claim(ask("a"))[0][1]) <= database.now()


def test_the_end_of_summer_time_repeats_no_hour() -> None:
    # In Berlin, 02:30 comes twice on 31 October 2027. The server takes both for the second one.
    first = datetime(2027, 10, 31, 0, 30, tzinfo=UTC).timestamp()
    clock = ServerClock()
    clock.advance(first - time.time())

    def trial(database: Database) -> bool:
        return abs(int(database.claim(ask("a"))[0][1]) / 1e6 - first) < HOUR / 1e6 / 2

    with MariaDB(env={**clock.env, "TZ": "Europe/Berlin"}) as server:
        local = "CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"
        holds(server, trial, instead(procedures.NOW, local))


def test_a_server_that_is_read_only_grants_nothing_even_to_root(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        server.command("SET GLOBAL read_only = 1")
        try:
            database.claim(ask("a"))
        except pymysql.OperationalError as error:
            return bool(error.args[0] == 1290)
        finally:
            server.command("SET GLOBAL read_only = 0")
        return False

    holds(server, trial, instead("NOT IN ('0', 'OFF')", "= 'never'"))


def test_no_token_reaches_the_limit(server: MariaDB) -> None:
    database = Database(server)
    database.run(f"UPDATE lockfast_bucket SET last = {2**53 - 1}")
    with pytest.raises(pymysql.OperationalError, match=r"would reach 2\^53"):
        database.claim(ask("a"))
    assert database.run("SELECT 1 FROM lockfast_claim") == []


def test_names_that_differ_in_case_are_two_names(server: MariaDB) -> None:
    def trial(database: Database) -> bool:
        return [database.claim(ask(name))[0][2] for name in ("a", "A")] == [b"t", b"t"]

    text = "VARCHAR(512) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"

    def collated(sql: str) -> str:
        mutant = re.sub(r"(name +)VARBINARY\(512\)", rf"\1{text}", sql)
        return instead("VARBINARY(999)", text)(mutant)

    holds(server, trial, collated)


# --- batches ------------------------------------------------------------------------------------


def test_the_client_and_the_server_agree_on_buckets(server: MariaDB) -> None:
    database = Database(server)
    for name in ("a", "é", "🔒", "n" * 512):
        mine = ask(name)
        database.claim(mine)
        assert database.run(f"SELECT b FROM lockfast_claim WHERE id = x'{mine.id}'") == [
            (messages.bucket(name),)
        ]


def test_batches_that_are_sorted_do_not_deadlock(server: MariaDB) -> None:
    names = [f"name {number}" for number in range(24)]

    def trial(database: Database, *, sort: bool) -> int:
        deadlocks = []

        def work(turn: int) -> None:
            with closing(database.connect()) as connection, connection.cursor() as cursor:
                for _ in range(40):
                    asks = [ask(name) for name in (names if turn % 2 else names[::-1])]
                    some = [asks[place] for place in messages.order(asks)] if sort else asks
                    for sql in (messages.claim(some, [FAR] * 24, 0), messages.resign(some, None)):
                        try:
                            cursor.execute(sql.decode())
                        except pymysql.OperationalError as error:
                            deadlocks.append(error.args[0])

        threads = [threading.Thread(target=work, args=(turn,)) for turn in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return deadlocks.count(1213)

    database = Database(server)
    assert trial(database, sort=True) == 0
    assert trial(database, sort=False) > 0


# --- what a user who may only execute can send --------------------------------------------------

CLAIM = {
    "kind": 1,
    "queue": 1,
    "capacity": 1,
    "weight": 1,
    "ttl": 10**6,
    "wait_ttl": 10**6,
    "name": b"a",
}


@pytest.mark.parametrize("others", [0, 3], ids=["alone", "together"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"weight": 0},
        {"weight": 2},
        {"kind": 0},
        {"kind": 4},
        {"kind": 100},
        {"kind": 3, "capacity": 2**31 - 1},
        {"kind": 2, "capacity": 5},
        {"kind": 2, "capacity": 2**31 - 1, "weight": 2},
        {"capacity": 2},
        {"ttl": 0},
        {"wait_ttl": 0},
        {"name": b""},
        {"name": b"n" * 513},
        {"name": b"n" * 600},
    ],
    ids="-".join,
)
def test_values_that_no_client_sends_are_refused(
    server: MariaDB, wrong: dict[str, int], others: int
) -> None:
    fields = CLAIM | wrong
    name = fields["name"]
    assert isinstance(name, bytes)
    good, bad = (
        b"%(kind)03d%(queue)d%(capacity)010d%(weight)010d%(ttl)016d%(wait_ttl)016d"
        % {key.encode(): value for key, value in each.items()}
        for each in (CLAIM, fields)
    )
    end = b"%016d%05d%07d" % (FAR, 0, 1)
    records = [bytes([number] * 16) + b"0010000001" + good + end for number in range(1, others + 1)]
    record = b"".join([*records, bytes(16) + b"%03d%07d" % (len(name), 1) + bad + end])
    database = Database(server)
    with pytest.raises(pymysql.OperationalError, match="not a claim"):
        database.run(
            f"CALL lockfast_claim_v1(0, x'{record.hex()}', x'{(name or b'a').hex()}', '')",
            "SET sql_mode = ''",
        )
    assert database.run("SELECT 1 FROM lockfast_claim") == []


@pytest.mark.parametrize("base", ["-1", "NULL", str(2**52)])
def test_a_base_that_no_client_sends_is_refused(server: MariaDB, base: str) -> None:
    database = Database(server)
    sql = messages.claim([ask("a")], [FAR], 0).decode().replace("(0,", f"({base},")
    with pytest.raises(pymysql.OperationalError, match="not a claim"):
        database.run(sql)


@pytest.mark.parametrize("cut", ["', x", "')"], ids=["record", "payload"])
def test_a_claim_that_was_cut_is_refused(server: MariaDB, cut: str) -> None:
    database = Database(server)
    mine = ask("a name")
    mine.payload = b"payload"
    sql = messages.claim([mine], [FAR], 0).decode()
    before, _, after = sql.rpartition(cut)
    with pytest.raises(pymysql.OperationalError, match="not a claim"):
        database.run(f"{before[:-2]}{cut}{after}")


@pytest.mark.parametrize(
    ("call", "record"),
    [
        (
            "claim_v1(0, x'%s', 'a', '')",
            b"-970000001" + b"0011%010d%010d%016d%016d%016d" % (1, 1, 9, 9, FAR),
        ),
        ("renew_v1(x'%s')", b"-19"),
        ("resign_v1(x'%s', 'a')", b"-350000001%016d" % 0),
    ],
    ids=["claim", "renew", "resign"],
)
def test_no_length_is_negative(server: MariaDB, call: str, record: bytes) -> None:
    """Else the next record of a renewal is the same one, and the loop over them has no end."""
    whole = record + bytes(16) if call.startswith("renew") else bytes(16) + record
    whole += b"000000000001" if call.startswith("claim") else b""
    with pytest.raises(pymysql.OperationalError, match="not a claim"):
        Database(server).run(
            f"CALL lockfast_{call % whole.hex()}", "SET SESSION max_statement_time = 2"
        )


@pytest.mark.parametrize("operation", ["renew", "resign"])
def test_a_name_that_was_cut_is_refused(server: MariaDB, operation: str) -> None:
    asks = [ask("a name")]
    sql = messages.renew(asks) if operation == "renew" else messages.resign(asks, None)
    with pytest.raises(pymysql.OperationalError, match="not a claim"):
        Database(server).run(sql[:-4] + b"')")


# --- pushes -------------------------------------------------------------------------------------


def test_a_push_does_not_wait_for_those_that_sleep(server: MariaDB) -> None:
    """Four ears are killed by four others, as often as they can."""

    def trial(database: Database, seconds: float) -> bool:
        ends, slow = time.monotonic() + seconds, threading.Event()
        ears = [database.connect() for _ in range(4)]  # open until nobody kills any more
        numbers = [number_of(ear) for ear in ears]

        def listen(connection: pymysql.connections.Connection[pymysql.cursors.Cursor]) -> None:
            with connection.cursor() as cursor:
                while time.monotonic() < ends and not slow.is_set():
                    with suppress(pymysql.OperationalError):
                        cursor.execute("CALL lockfast_ear_v1(0, 0)")

        def kill() -> None:
            with closing(database.connect()) as connection, connection.cursor() as cursor:
                while (began := time.monotonic()) < ends and not slow.is_set():
                    cursor.execute(f"KILL QUERY {secrets.choice(numbers)}")
                    if time.monotonic() - began > 1.9:
                        slow.set()

        threads = [threading.Thread(target=listen, args=(ear,)) for ear in ears]
        threads += [threading.Thread(target=kill) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return not slow.is_set()

    pause, mutant = (procedures.parts()[name] for name in ("MARIADB_PAUSE", "PAUSE"))
    assert trial(Database(server), 5.0)
    # About one kill in a hundred stalls, and a loaded machine kills few. The first stall ends this.
    assert not trial(Database(server, instead(pause, mutant)), 60.0), "the mutant was not found"


@pytest.fixture(scope="module")
def pool() -> Iterator[MariaDB]:
    config = {"thread-handling": "pool-of-threads", "thread-pool-size": "1"}
    with MariaDB(config=config | {"innodb-flush-log-at-trx-commit": "0"}) as server:
        yield server


def test_an_ear_keeps_no_query_of_others_from_a_pool_of_threads(pool: MariaDB) -> None:
    def trial(database: Database) -> bool:
        done = threading.Event()

        def listen() -> None:
            with closing(database.connect()) as connection, connection.cursor() as cursor:
                while not done.is_set():
                    cursor.execute("CALL lockfast_ear_v1(0, 0)")

        threads = [threading.Thread(target=listen) for _ in range(4)]
        for thread in threads:
            thread.start()
        times = []
        with closing(database.connect()) as connection, connection.cursor() as cursor:
            time.sleep(0.7)
            for _ in range(15):
                began = time.monotonic()
                cursor.execute("SELECT 1")
                times.append(time.monotonic() - began)
                time.sleep(0.02)
        done.set()
        for thread in threads:
            thread.join()
        return sorted(times)[len(times) // 2] < 0.2

    pause = procedures.parts()["MARIADB_PAUSE"]
    wait = pause.removeprefix("IF(@@thread_handling = 'pool-of-threads', SLEEP(0.5), ")
    mutant = Database(pool, instead(pause, wait.removesuffix(")")))
    assert trial(Database(pool))
    # The server adds a thread when all are busy, and a busy machine may give it time for four.
    assert not all(trial(mutant) for _ in range(5)), "the mutant was not found"


def test_a_pool_of_threads_kills_nobody(pool: MariaDB) -> None:
    def trial(database: Database) -> bool:
        holder, waiter = ask("a"), ask("a")
        for each in (holder, waiter):
            database.claim(each)
        with closing(database.connect()) as ear, ear.cursor() as cursor:
            cursor.execute(messages.hold_ear(waiter.id[: messages.CLIENT]).decode())
            releasing = threading.Timer(0.5, database.run, [messages.resign([holder], None)])
            releasing.start()
            try:
                cursor.execute("SELECT SLEEP(2)")
            except pymysql.OperationalError:
                return False
            finally:
                releasing.join()
        return True

    holds(pool, trial, without(" AND @@thread_handling <> 'pool-of-threads'"))
