"""A batch on MariaDB does what its records do one by one: two databases, and one clock.

One database gets each batch in a call of its own, the other record by record. Then the answers and
the tables must be the same. The records are what no client of ours would put together: names and
ids that come twice, claims of other users, formats and kinds, late copies, and resignations that
only some of the users may make. `LOCKFAST_EXAMPLES` sets how many histories are tried.
"""

from __future__ import annotations

import itertools
import os
import random
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any

import pymysql
import pytest

from lockfast.engines.mysql import messages, procedures
from lockfast.port import SHARED, Ask, Kind, Shape
from tests.contract.test_mysql_rules import FAR, Database, early
from tests.servers import MariaDB

HISTORIES = int(os.environ.get("LOCKFAST_EXAMPLES", "2"))
STEPS = 30
COUNTS = [3, 3, 4, 5, 7, 20]  # of the records in a batch
START = 1_700_000_000_000_000
CLOCK = "(SELECT x.t FROM lockfast_clock x)"
USERS = ["root", "one", "two"]
LOCK = (Kind.LOCK, 1, 1)
READER, WRITER = ((Kind.READ_WRITE, SHARED, weight) for weight in (1, SHARED))
PERMITS = [(Kind.SEMAPHORE, *sizes) for sizes in [(3, 1), (3, 2), (5, 4)]]
SIZES = [LOCK, LOCK, LOCK, READER, WRITER, *PERMITS]
CLAIM = "name, HEX(id), waits, kind, capacity, weight, expires, place, payload, owner"
TOTALS = "ticket, claims, waiting, held"


def sharing(name: str) -> str:
    """Return another name in the bucket of this one."""
    every = (f"other {number}" for number in itertools.count())
    return next(each for each in every if messages.bucket(each) == messages.bucket(name))


NAMES = [f"name {number}" for number in range(9)]
NAMES += [sharing(name) for name in NAMES]


def frozen(sql: str) -> str:
    """Have the procedures read the time from a table."""
    table = "CREATE TABLE lockfast_clock (t BIGINT NOT NULL)//\n"
    first = f"{table}INSERT INTO lockfast_clock VALUES ({START})//\n"
    start = "CREATE TABLE IF NOT EXISTS lockfast_bucket"
    return sql.replace(procedures.NOW, CLOCK).replace(start, first + start)


class Twin:
    """One of the databases, with a connection for each user."""

    def __init__(self, server: MariaDB, stack: ExitStack) -> None:
        self.database = Database(server, frozen)
        self._links = {}
        for user in USERS:
            schema = self.database._name
            if user == "root":
                link = self.database.connect()
            else:
                server.command(f"GRANT EXECUTE ON {schema}.* TO {user}@'%'")
                link = server.connect(user, "", database=schema)
            self._links[user] = stack.enter_context(link)

    def send(self, user: str, sql: bytes) -> bytes | int:
        """Run a statement, and return the answer, or the number of the error."""
        with self._links[user].cursor() as cursor:
            try:
                cursor.execute(sql.decode())
            except pymysql.Error as error:
                return int(error.args[0])
            ((answer,),) = cursor.fetchall()
            assert isinstance(answer, bytes)
            return answer

    def do(self, sql: str) -> None:
        self.database.run(sql)

    def places(self) -> dict[tuple[bytes, int], int]:
        """Return the place of each ticket among those of its name."""
        rows: Sequence[tuple[Any, ...]] = self.database.run(
            "SELECT name, ticket, ROW_NUMBER() OVER (PARTITION BY name ORDER BY ticket) "
            "FROM lockfast_claim"
        )
        return {(name, ticket): place for name, ticket, place in rows}

    def state(self) -> list[Any]:
        """Return all claims in the order of their queues, and all tombstones."""
        claims = self.database.run(f"SELECT {CLAIM} FROM lockfast_claim ORDER BY name, ticket")
        tombs = self.database.run("SELECT b, HEX(id), owner, until FROM lockfast_tombstone")
        return [claims, sorted(tombs, key=str)]

    def check(self) -> None:
        """Check the totals of each queue, and the rule: who is granted, and who is not."""
        assert early(self.database)
        rows: Sequence[tuple[Any, ...]] = self.database.run(
            f"SELECT name, waits, weight, capacity, {TOTALS} FROM lockfast_claim "
            "WHERE kind < 100 ORDER BY name, waits, ticket"
        )
        for name, group in itertools.groupby(rows, key=lambda row: row[0]):
            queue = list(group)
            held = [row for row in queue if not row[1]]
            tickets = [row[4] for row in queue]
            assert tickets == sorted(set(tickets)), name
            weight = sum(row[2] for row in held)
            assert queue[-1][5:] == (len(queue), len(queue) - len(held), weight), name
            sums = itertools.accumulate(row[2] for row in held)
            assert all(each <= row[3] for each, row in zip(sums, held, strict=True)), name
            assert len(held) == len(queue) or weight + queue[len(held)][2] > queue[len(held)][3]


class History:
    """Random batches for both databases."""

    def __init__(self, dice: random.Random, together: Twin, single: Twin) -> None:
        self._dice = dice
        self._together, self._single = together, single
        self._asks: list[Ask] = []
        self.fast = 0
        """How many batches of claims were applied together, in part at least."""

    def step(self) -> None:
        dice = self._dice
        what: Callable[[str], None] = dice.choice(
            [self.claim] * 4 + [self.resign] * 3 + [self.pass_time] * 2 + [self.renew, self.intrude]
        )
        what(dice.choice(["one", "one", "one", "two", "root"]))
        assert self._together.state() == self._single.state()
        self._together.check()

    def both(self, sql: str) -> None:
        for twin in (self._together, self._single):
            twin.do(sql)

    def pass_time(self, _: str) -> None:
        seconds = self._dice.choice([0.5, 1.5, 4.0, 12.0, -4.0])
        self.both(f"UPDATE lockfast_clock SET t = t + {seconds * 1e6:.0f}")

    def intrude(self, _: str) -> None:
        """Promote a server, or have a later version of lockfast hold a lock for two seconds."""
        name = self._dice.choice(NAMES)
        if self._dice.random() < 1 / 3:
            self.both(f"UPDATE lockfast_bucket SET line = 'b' WHERE b = {messages.bucket(name)}")
            return
        self.both(
            f"INSERT INTO lockfast_claim SELECT {messages.bucket(name)}, "
            f"x'{secrets.token_hex(16)}', '{name}', t, 0, 205, 1, 1, 30000000, 10000000, "
            "t + 2000000, 1, 1, 0, 1, '', 'root' FROM lockfast_clock "
            f"WHERE NOT EXISTS (SELECT 1 FROM lockfast_claim WHERE name = '{name}')"
        )
        self.both("UPDATE lockfast_bucket, lockfast_clock SET due = LEAST(due, t + 2000000)")

    def ask(self, name: str) -> Ask:
        """Return a new claim, or one that was sent before, or one with the id of another."""
        dice = self._dice
        old = [ask for ask in self._asks[-40:] if ask.shape.name == name]
        if old and dice.random() < 0.1:
            return dice.choice(old)
        shape = Shape(name, dice.choice([2.0, 5.0, 12.0]), *dice.choice(SIZES))
        ident = secrets.token_hex(16)
        if self._asks and dice.random() < 0.01:
            ident = dice.choice(self._asks).id
        made = Ask(ident, shape, dice.random() < 0.7, 0.0, dice.choice([b"", b"pay"]))
        self._asks.append(made)
        return made

    def claim(self, user: str) -> None:
        dice, count = self._dice, self._dice.choice(COUNTS)
        names = dice.sample(NAMES, min(count, len(NAMES)))
        if dice.random() < 0.2:
            names = dice.choices(NAMES[:6], k=count)
        asks = [self.ask(name) for name in names]
        asks = [asks[place] for place in messages.order(asks)]
        lates = [START if dice.random() < 0.05 else FAR for _ in asks]
        answer = self._together.send(user, messages.claim(asks, lates, 0))
        each = [
            self._single.send(user, messages.claim([ask], [late], 0))
            for ask, late in zip(asks, lates, strict=True)
        ]
        assert isinstance(answer, bytes)
        self.fast += answer.partition(b"\n")[0].count(b"-") < len(asks)
        found = _claimed(answer, asks, self._together.places())
        places = self._single.places()
        for ask, mine, theirs in zip(asks, found, each, strict=True):
            assert isinstance(theirs, bytes)
            assert [mine] == _claimed(theirs, [ask], places), ask.shape

    def some(self, most: int) -> list[Ask]:
        """Return some of the latest claims. One may come twice, or with the name of another."""
        dice, latest = self._dice, self._asks[-40:]
        asks = dice.sample(latest, min(most, len(latest)))
        if asks and dice.random() < 0.2:
            again = dice.choice(asks)
            shape = dice.choice([again.shape, Shape(dice.choice(NAMES), 5.0)])
            asks.append(Ask(again.id, shape, True, 0.0, b""))  # noqa: FBT003  # as the port has it
        return [asks[place] for place in messages.order(asks)]

    def renew(self, user: str) -> None:
        asks = self.some(self._dice.choice(COUNTS))
        answer = self._together.send(user, messages.renew(asks))
        each = [self._single.send(user, messages.renew([ask])) for ask in asks]
        # What an earlier renewal grants, a later one of the batch reports, and so do the single.
        assert isinstance(answer, bytes)
        assert [len(line.split()) for line in answer.splitlines()] == [
            len(line.split()) for one in each if isinstance(one, bytes) for line in one.splitlines()
        ]

    def resign(self, user: str) -> None:
        dice = self._dice
        asks = self.some(dice.choice(COUNTS))
        doubts = [dice.random() < 0.2 for _ in asks] if dice.random() < 0.3 else [False] * len(asks)
        untils = [FAR if doubt else 0 for doubt in doubts]
        before = self._together.state()
        answer = self._together.send(user, messages.resign(asks, untils))
        if answer == 1227:  # one of them is another user's: nothing has happened
            assert self._together.state() == before
            return
        each = [
            self._single.send(user, messages.resign([ask], [until]))
            for ask, until in zip(asks, untils, strict=True)
        ]
        assert [answer] == [b"".join(one for one in each if isinstance(one, bytes))]


def _claimed(answer: bytes, asks: list[Ask], places: dict[tuple[bytes, int], int]) -> list[Any]:
    """Read an answer to claims, with the place of a ticket in its queue instead of the ticket."""
    first, *rest = [line.split(b" ") for line in answer.splitlines()]
    lines, found = iter(rest), list[Any]()
    for at, ask in enumerate(asks):
        digits, ttl = first[1][at * 16 : at * 16 + 16], b"%d" % round(ask.shape.ttl * 1e6)
        alone = [b"", digits, b"t", ttl, b"0", b"0", digits]
        words: list[Any] = (next(lines) if digits.endswith(b"-") else alone)[1:]
        for place in (0, 5, 8):  # its ticket, the floor, and the ticket of the head
            if len(words) > max(place, 1):
                key = ask.shape.name.encode(), int(words[place])
                words[place] = places.get(key, 0)
        del words[6:7]  # the next expiry in the bucket, where others of the batch may be by now
        found.append(words)
    return found


@pytest.fixture(scope="module")
def server() -> Iterator[MariaDB]:
    with MariaDB(config={"innodb-flush-log-at-trx-commit": "0"}) as server:
        for user in USERS[1:]:
            server.command(f"CREATE USER {user}@'%'")
        yield server


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_a_batch_does_what_its_records_do_one_by_one(server: MariaDB, seed: int) -> None:
    with ExitStack() as stack:
        history = History(random.Random(seed), Twin(server, stack), Twin(server, stack))  # noqa: S311  # no secret
        for _ in range(STEPS):
            history.step()
    assert history.fast
