"""What a client of SQLite hears: when it looks, and that each grant is told once."""

from __future__ import annotations

import secrets
from typing import Any

from lockfast.engines.sqlite.listener import SHORTEST, TROUBLE, Listener, notify
from lockfast.port import CLIENT, EVERYONE, Ask, Shape, Standing, Wake, everyone_of

WAITS = Standing(5, granted=False, left=10.0)
HOLDS = Standing(5, granted=True, left=10.0)


class Bell:
    """A bell that asks, when it rings, whether there is something to look for."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self.rung: list[float | None] = []

    def ring(self) -> None:
        assert self.listener is not None
        self.rung.append(self.listener.pause())

    async def wait(self, until: float | None, watched: int | None = None) -> bool:
        raise NotImplementedError

    def close(self) -> None:
        pass


class Store:
    """A store whose answers the test chooses."""

    def __init__(self) -> None:
        self.at: tuple[int, int] | None = (1, 1)
        self.woken: list[Wake] | None = []
        self.looks = 0

    def version(self) -> tuple[int, int] | None:
        return self.at

    def look(self, _work: object) -> list[Wake] | None:
        self.looks += 1
        return self.woken


def made() -> tuple[Listener, Any, Bell, Ask]:
    bell = Bell()
    listener = bell.listener = Listener(bell, lambda: 100.0)
    ask = Ask(secrets.token_hex(16), Shape("x", 30.0), queue=True, not_after=110.0, payload=b"")
    listener.hear(ask.id[:CLIENT], on=True)
    assert listener.take() == [EVERYONE, everyone_of(ask.id[:CLIENT])]
    bell.rung.clear()
    return listener, Store(), bell, ask


def test_a_heart_that_looks_at_once_finds_the_new_waiter() -> None:
    """It once found none, and slept until its next renewal."""
    listener, _, bell, ask = made()
    listener.answered(ask, WAITS)
    assert bell.rung == [SHORTEST]


def test_nobody_looks_for_a_claim_that_does_not_wait_any_more() -> None:
    listener, _, _, ask = made()
    for end in (HOLDS, None):
        listener.answered(ask, WAITS)
        assert listener.pause() == SHORTEST
        listener.answered(ask, end)
        assert listener.pause() is None
    listener.answered(ask, WAITS)
    listener.answered(ask, OSError())  # nobody knows: it may still wait
    assert listener.pause() == SHORTEST
    listener.resigned(ask)
    assert listener.pause() is None


def test_a_grant_is_told_once_however_it_is_heard() -> None:
    listener, store, _, ask = made()
    wake = Wake(ask.id, granted=True, floor=3)
    listener.answered(ask, WAITS)
    store.woken = [wake]
    notify([wake])
    assert listener.look(store)
    assert listener.take() == [wake]
    store.at = (1, 2)
    assert not listener.look(store)
    assert listener.take() == []


def test_the_table_is_read_only_after_a_write_of_another_process() -> None:
    listener, store, _, ask = made()
    listener.answered(ask, WAITS)
    for _ in range(3):
        assert not listener.look(store)
    assert store.looks == 1
    store.at = (1, 2)
    listener.look(store)
    assert store.looks == 2


def test_after_the_file_was_opened_again_everyone_is_asked_for() -> None:
    listener, store, _, ask = made()
    listener.answered(ask, WAITS)
    listener.look(store)
    store.at = (2, 1)
    assert listener.look(store)
    assert listener.take() == [EVERYONE]
    assert not listener.look(store)


def test_a_database_in_trouble_is_not_looked_at_a_thousand_times_a_second() -> None:
    listener, store, _, ask = made()
    listener.answered(ask, WAITS)
    store.woken = None
    assert not listener.look(store)
    assert listener.pause() == TROUBLE
    store.woken = []
    listener.look(store)
    assert listener.pause() == SHORTEST
