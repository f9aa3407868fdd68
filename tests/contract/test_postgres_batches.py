"""Batches of two roles on PostgreSQL, compared with the reference model, and at the same time."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from hashlib import sha256

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lockfast import EngineRefused, KindMismatch
from lockfast.core.queue import Queues
from lockfast.engines import opener
from lockfast.engines.postgres import install
from lockfast.port import SHARED, Ask, Engine, Kind, Shape, Standing
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.contract.benches import PostgresBench
from tests.servers import Postgres

ROLES = ["app", "other"]
TTL = 300.0


def bucket(name: str) -> int:
    digest = sha256(name.encode()).digest()
    return digest[0] % 4 * 256 + digest[1]


NAMES = ["a", "b"]
"""Some names, and then some that have the bucket of the first one."""
NAMES += [name for name in map(str, range(10_000)) if bucket(name) == bucket("a")][:3]
SHAPES = [(Kind.LOCK, 1, 1)] * 3
SHAPES += [(Kind.READ_WRITE, SHARED, 1), (Kind.READ_WRITE, SHARED, SHARED)]
SHAPES += [(Kind.SEMAPHORE, 2, 1), (Kind.SEMAPHORE, 3, 2)]

asked = st.tuples(st.sampled_from(NAMES), st.sampled_from(SHAPES), st.booleans())
step = st.tuples(
    st.sampled_from(
        ["claim", "claim", "claim", "retry", "renew", "resign", "resign", "leave", "break", "doubt"]
    ),
    st.sampled_from([0, 1]),
    st.lists(asked, min_size=1, max_size=6),
    st.lists(st.integers(0, 11), min_size=1, max_size=6),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres(config={"fsync": "off"}) as server:
        for role in ROLES:
            server.command(f"CREATE ROLE {role} LOGIN")
            install(server.url, role=role)
        yield server


def opened(server: Postgres, role: str) -> Engine:
    return opener(parse(server.url.replace("postgres@", f"{role}@")), Threads())()


def wish(name: str, *, queue: bool = True) -> Ask:
    return Ask(secrets.token_hex(16), Shape(name, TTL), queue, now() + 9.0, b"")


@pytest.fixture(scope="module")
def engines(server: Postgres) -> Iterator[list[Engine]]:
    engines = [opened(server, role) for role in ROLES]
    yield engines
    for engine in engines:
        drive(engine.close())


class Both:
    """The database and the model, which get the same batches."""

    def __init__(self, engines: list[Engine]) -> None:
        self._engines = engines
        self._model = Queues()
        self._asks: list[Ask] = []
        self._roles: dict[str, int] = {}
        self._tickets: dict[str, dict[int, int]] = {name: {} for name in NAMES}

    def new(self, role: int, sizes: list[tuple[str, tuple[Kind, int, int], bool]]) -> None:
        asks = [
            Ask(secrets.token_hex(16), Shape(name, TTL, *shape), queue, now() + 60.0, b"p")
            for name, shape, queue in sizes
        ]
        self._asks += asks
        self._roles |= dict.fromkeys((ask.id for ask in asks), role)
        self._claim(role, asks)

    def chosen(self, picks: list[int]) -> list[Ask]:
        """Give some of the last claims, each once. Those of one call differ in their ids."""
        last = self._asks[-12:]
        some = [last[pick % len(last)] for pick in picks] if last else []
        return list({ask.id: ask for ask in some}.values())

    def retry(self, role: int, asks: list[Ask]) -> None:
        """Claim again, also with the id of another role's claim that lives. Once that is gone, its
        tombstone would count for the other role alone, and the model knows no roles.
        """
        asks = [ask for ask in asks if self._roles[ask.id] == role or self._lives(ask)]
        if asks:
            self._claim(role, asks)

    def _claim(self, role: int, asks: list[Ask]) -> None:
        found = drive(self._engines[role].claim_all(asks, now() + 30.0))
        for ask, theirs in zip(asks, found, strict=True):
            if self._roles[ask.id] != role:
                assert theirs is None, "took another role's claim for its own"
                continue
            try:
                ours = self._model.claim(ask, now())
            except KindMismatch:
                assert isinstance(theirs, KindMismatch)
                continue
            if ours is None:
                assert theirs is None
                continue
            assert isinstance(theirs, Standing), (ask, theirs)
            self._compare(ask, theirs, ours)

    def _compare(self, ask: Ask, theirs: Standing, ours: Standing) -> None:
        assert (theirs.granted, theirs.ahead) == (ours.granted, ours.ahead)
        assert (theirs.ticket == 0) == (ours.ticket == 0)
        tickets = self._tickets[ask.shape.name]
        if ours.ticket:
            assert tickets.setdefault(ours.ticket, theirs.ticket) == theirs.ticket
            assert sorted(tickets.values()) == [tickets[key] for key in sorted(tickets)]
            assert len(set(tickets.values())) == len(tickets)
            assert theirs.floor == tickets[ours.floor]
        assert (theirs.blocker and theirs.blocker.id) == (ours.blocker and ours.blocker.id)

    def _lives(self, ask: Ask) -> bool:
        return ask.id in {entry.id for entry in self._model.entries(ask.shape.name, now())}

    def renew(self, role: int, asks: list[Ask]) -> None:
        found = drive(self._engines[role].renew(asks, now() + 30.0))
        for ask, theirs in zip(asks, found, strict=True):
            ours = self._model.renew(ask, now())
            assert (theirs is None) == (ours is None)
            if isinstance(theirs, Standing) and ours is not None:
                assert (theirs.granted, theirs.behind) == (ours.granted, ours.behind)
                self._compare(ask, theirs, ours)

    def resign(self, role: int, asks: list[Ask], *, doubt: bool) -> None:
        own = [ask for ask in asks if self._roles[ask.id] == role]
        if own:
            self.break_(role, own, doubt=doubt)
        if own and doubt:  # a copy that arrives late
            until = now() + 30.0
            assert drive(self._engines[role].claim_all(own, until)) == [None] * len(own)
            assert drive(self._engines[role].claim(own[0], until)) is None

    def leave(self, role: int) -> None:
        """Resign all that the role holds, in one call."""
        held = {
            entry.id
            for name in NAMES
            for entry in self._model.entries(name, now())
            if entry.granted
        }
        self.resign(role, [ask for ask in self._asks if ask.id in held], doubt=False)

    def break_(self, role: int, asks: list[Ask], *, doubt: bool = False) -> None:
        """Resign claims of any role. Not in doubt: the tombstone of a stranger does not count, and
        the model knows no roles.
        """
        foreign = [ask for ask in asks if self._roles[ask.id] != role and self._lives(ask)]
        theirs: list[bool | Exception]
        try:
            theirs = drive(self._engines[role].resign(asks, now() + 30.0, doubt=doubt))
        except EngineRefused as error:
            assert len(foreign) == len(asks)
            theirs = [error] * len(asks)
        for ask, removed in zip(asks, theirs, strict=True):
            if ask in foreign:
                assert isinstance(removed, EngineRefused)
            else:
                assert removed == self._model.resign(ask, now(), doubt=doubt)

    def compare_queues(self) -> None:
        """Compare what `inspect` shows, then what a renewal of all that lives reports. A renewal
        would mend a queue whose first waiter was not granted.
        """
        for name in NAMES:
            page = drive(self._engines[0].inspect(name, None, exact=True))
            ours = self._model.entries(name, now())
            assert [(each.id, each.granted) for each in page.entries] == [
                (each.id, each.granted) for each in ours
            ]
        for role in range(2):
            live = [ask for ask in self._asks if self._roles[ask.id] == role and self._lives(ask)]
            if live:
                self.renew(role, live)


@settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)
@given(steps=st.lists(step, min_size=8, max_size=20))
def test_batches_of_two_roles_do_what_the_reference_model_does(
    server: Postgres,
    engines: list[Engine],
    steps: list[tuple[str, int, list[tuple[str, tuple[Kind, int, int], bool]], list[int]],],
) -> None:
    PostgresBench(server).wipe()
    both = Both(engines)
    for kind, role, sizes, picks in steps:
        chosen = both.chosen(picks)
        if kind == "claim":
            both.new(role, sizes)
        elif chosen and kind == "retry":
            both.retry(role, chosen)
        elif chosen and kind == "renew":
            both.renew(role, chosen)
        elif kind == "leave":
            both.leave(role)
        elif chosen and kind == "break":
            both.break_(role, chosen)
        elif chosen:
            both.resign(role, chosen, doubt=kind == "doubt")
        both.compare_queues()


def test_batches_at_the_same_time_neither_deadlock_nor_let_two_in(server: Postgres) -> None:
    PostgresBench(server).wipe()
    names = [f"at once {number}" for number in range(12)]
    holders: dict[str, str] = {}
    tokens: dict[str, list[int]] = {name: [] for name in names}
    mutex, errors, stop = threading.Lock(), [], time.monotonic() + 4.0
    rounds = [0] * 4

    def work(number: int) -> None:
        engine = opened(server, ROLES[number % 2])
        try:
            while time.monotonic() < stop:
                order = secrets.SystemRandom().sample(names, 6)
                asks = [wish(name, queue=False) for name in order]
                found = drive(engine.claim_all(asks, now() + 9.0))
                held = [
                    (ask, standing)
                    for ask, standing in zip(asks, found, strict=True)
                    if isinstance(standing, Standing) and standing.granted
                ]
                with mutex:
                    for ask, standing in held:
                        assert ask.shape.name not in holders
                        holders[ask.shape.name] = ask.id
                        tokens[ask.shape.name].append(standing.ticket)
                drive(engine.renew([ask for ask, _ in held], now() + 9.0))
                with mutex:
                    for ask, _ in held:
                        del holders[ask.shape.name]
                gone = drive(engine.resign([ask for ask, _ in held], now() + 9.0, doubt=False))
                assert all(gone)
                rounds[number] += 1
        except BaseException as error:  # noqa: BLE001  # the test looks at it
            errors.append(error)
        finally:
            drive(engine.close())

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    assert all(rounds)
    for each in tokens.values():
        assert each == sorted(set(each))
    ((deadlocks,),) = server.command(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    )
    assert deadlocks == 0


def test_a_claim_twice_on_one_name_in_one_batch_lets_one_in(server: Postgres) -> None:
    PostgresBench(server).wipe()
    engine = opened(server, "app")
    asks = [wish("twice") for _ in range(3)]
    try:
        found = drive(engine.claim_all([*asks, asks[0]], now() + 9.0))
        standings = [each for each in found if isinstance(each, Standing)]
        assert [each.granted for each in standings] == [True, False, False, True]
        tickets = [each.ticket for each in standings]
        assert tickets[:3] == sorted(set(tickets[:3]))
        assert tickets[3] == tickets[0]
    finally:
        drive(engine.close())


def test_one_id_on_two_names_of_one_batch_is_granted_once(server: Postgres) -> None:
    PostgresBench(server).wipe()
    engine, id_ = opened(server, "app"), secrets.token_hex(16)
    asks = [
        Ask(id_, Shape(name, TTL), queue=True, not_after=now() + 9.0, payload=b"")
        for name in ("one", "two")
    ]
    try:
        found = drive(engine.claim_all(asks, now() + 9.0))
        assert sum(isinstance(each, Standing) for each in found) == 1
        assert found.count(None) == 1
        assert server.command("SELECT count(*) FROM lockfast.claim") == [(1,)]
    finally:
        drive(engine.close())


def set_last(server: Postgres, ticket: int) -> None:
    """Say that a bucket has minted that ticket."""
    with server.connect() as connection:
        connection.execute(
            "UPDATE lockfast.bucket SET last = %s WHERE b = %s", [ticket, bucket("a")]
        )


def test_a_batch_mints_one_ticket_for_each_claim(server: Postgres) -> None:
    """Also for a claim that waits: a second ticket would be a second write of its bucket."""
    PostgresBench(server).wipe()
    engine = opened(server, "app")
    same = NAMES[2:]  # of one bucket
    # The tickets of a bucket that is ahead of the clock are consecutive.
    set_last(server, 2**52)
    try:
        for first in (True, False):
            asks = [wish(name) for name in same]
            found = drive(engine.claim_all(asks, now() + 9.0))
            tickets = [each.ticket for each in found if isinstance(each, Standing)]
            begin = 2**52 + 1 + (0 if first else len(same))
            assert tickets == list(range(begin, begin + len(same)))
    finally:
        drive(engine.close())
        set_last(server, 0)


def test_one_value_that_is_no_claim_refuses_the_batch_and_changes_nothing(server: Postgres) -> None:
    PostgresBench(server).wipe()
    call = (
        "SELECT lockfast.claim_v2('{a,b}', '{x,y}'::text[], '{1,1}', '{1,1}', '{1,%s}', "
        "'{1000000,1000000}', '{1000000,1000000}', '{t,t}', "
        "'{4503599627370495,4503599627370495}', 0, '{p,p}', '{w,w}')"
    )
    url = server.url.replace("postgres@", "app@")
    with psycopg.connect(url, autocommit=True) as connection:
        for weight in (0, -1, 2, "NULL"):
            with pytest.raises(psycopg.errors.InvalidParameterValue, match="'y'"):
                connection.execute((call % weight).encode())
        assert server.command("SELECT count(*) FROM lockfast.claim") == [(0,)]
        row = connection.execute((call % 1).encode()).fetchone()
        assert row is not None
        assert [line.split()[2] for line in row[0].split("\n")] == ["t", "t"]


def test_a_bucket_that_somebody_deleted_refuses_everything(server: Postgres) -> None:
    """Without its row nothing keeps two transactions apart."""
    PostgresBench(server).wipe()
    engine = opened(server, "app")
    held, other = (wish(name) for name in ("a", "b"))
    try:
        assert drive(engine.claim(held, now() + 9.0)) is not None
        with server.connect() as connection:
            connection.execute("DELETE FROM lockfast.bucket WHERE b = %s", [bucket("a")])
        for call in (
            engine.claim(held, now() + 9.0),
            engine.claim_all([other, held], now() + 9.0),
            engine.renew([held], now() + 9.0),
            engine.renew([other, held], now() + 9.0),
            engine.resign([held], now() + 9.0, doubt=False),
        ):
            with pytest.raises(EngineRefused, match=r"lost.*install\(url\)"):
                drive(call)
        absent, refused = drive(engine.resign([other, held], now() + 9.0, doubt=False))
        assert absent is False
        assert isinstance(refused, EngineRefused)
        assert "install(url)" in str(refused)
        install(server.url)
        assert drive(engine.claim_all([other], now() + 9.0)) != [None]
        assert drive(engine.resign([held, other], now() + 9.0, doubt=False)) == [True, True]
    finally:
        install(server.url)
        drive(engine.close())
