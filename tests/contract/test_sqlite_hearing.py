"""How one SQLite engine hears many clients, as a replica of the service does."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from lockfast.engines import opener
from lockfast.engines.sqlite.engine import SqliteEngine
from lockfast.engines.sqlite.listener import _listeners
from lockfast.port import CLIENT, Ask, Shape, Wake
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse


class Engines:
    """Engines on one file."""

    def __init__(self, folder: Path) -> None:
        self._url = f"sqlite:///{folder}/locks.db"
        self._open: list[SqliteEngine] = []

    def one(self, *, far: bool = False) -> SqliteEngine:
        """Open an engine. `far`: as in another process, whose grants nobody here is told of."""
        engine = opener(parse(self._url), Threads())()
        assert isinstance(engine, SqliteEngine)
        if far:
            engine._store._notify = lambda _wakes: None
        self._open.append(engine)
        return engine

    def close(self) -> None:
        for engine in self._open:
            drive(engine.close())


@pytest.fixture
def engines(tmp_path: Path) -> Iterator[Engines]:
    with closing(Engines(tmp_path)) as engines:
        yield engines


def ask(client: str, name: str) -> Ask:
    ident = client + secrets.token_hex(5)
    return Ask(ident, Shape(name, 30.0), True, now() + 20.0, b"")  # noqa: FBT003  # as the port has it


def some_client() -> str:
    return secrets.token_hex(CLIENT // 2)


def blocked(engine: SqliteEngine, other: SqliteEngine, client: str, name: str) -> tuple[Ask, Ask]:
    """Have a claim of a client wait for another one. Return the one that holds, and the waiter."""
    holder, waiter = ask(some_client(), name), ask(client, name)
    drive(other.claim(holder, now() + 5.0))
    drive(engine.claim(waiter, now() + 5.0))
    return holder, waiter


def heard(engine: SqliteEngine, seconds: float, enough: int = 1) -> set[str]:
    """Return the claims that are woken, as soon as there are enough of them."""
    end, wakes = now() + seconds, list[Wake]()
    while len({wake.id for wake in wakes}) < enough and now() < end:
        wakes += [wake for wake in drive(engine.listen(end)) if len(wake.id) > CLIENT]
    return {wake.id for wake in wakes}


@pytest.mark.parametrize("far", [False, True])
@pytest.mark.parametrize("count", [1, 5])
def test_all_clients_of_an_engine_are_woken_and_no_others(
    engines: Engines, count: int, *, far: bool
) -> None:
    engine, other = engines.one(), engines.one(far=far)
    clients = [some_client() for _ in range(count)]
    for client in clients:
        engine.hear(client, on=True)
    pairs = [blocked(engine, other, each, f"name {each}") for each in [*clients, some_client()]]
    assert heard(engine, 0.1) == set()
    drive(other.resign([holder for holder, _ in pairs], now() + 5.0, doubt=False))
    assert heard(engine, 20.0, count) == {waiter.id for _, waiter in pairs[:-1]}
    assert heard(engine, 0.1) == set()


@pytest.mark.parametrize("far", [False, True])
def test_a_client_that_left_is_not_heard(engines: Engines, *, far: bool) -> None:
    engine, other = engines.one(), engines.one(far=far)
    gone, stays = some_client(), some_client()
    for client in (gone, stays):
        engine.hear(client, on=True)
    pairs = [blocked(engine, other, each, each) for each in (gone, stays)]
    engine.hear(gone, on=False)
    drive(other.resign([holder for holder, _ in pairs], now() + 5.0, doubt=False))
    assert heard(engine, 20.0) == {pairs[1][1].id}
    assert heard(engine, 0.1) == set()


def test_a_client_that_two_engines_hear_stays_heard_when_one_stops(engines: Engines) -> None:
    old, new, other = engines.one(), engines.one(), engines.one()
    client = some_client()
    for engine in (old, new):
        engine.hear(client, on=True)
    holder, waiter = blocked(old, other, client, "x")
    old.hear(client, on=False)
    drive(other.resign([holder], now() + 5.0, doubt=False))
    assert heard(new, 20.0) == {waiter.id}
    assert heard(old, 0.1) == set()


def test_a_closed_engine_leaves_nothing_behind(engines: Engines) -> None:
    engine = engines.one()
    clients = [some_client() for _ in range(3)]
    for client in clients:
        engine.hear(client, on=True)
    assert set(clients) <= set(_listeners)
    drive(engine.close())
    assert not set(clients) & set(_listeners)


def test_what_the_heart_was_told_is_forgotten_with_the_claim(engines: Engines) -> None:
    """No look would ever forget it, if all claims are made by one process."""
    engine = engines.one()
    client = some_client()
    engine.hear(client, on=True)
    for _ in range(3):
        holder, waiter = blocked(engine, engine, client, "x")
        drive(engine.resign([holder], now() + 5.0, doubt=False))
        assert heard(engine, 20.0) == {waiter.id}
        drive(engine.resign([waiter], now() + 5.0, doubt=False))
    assert engine._listener._told == set()
