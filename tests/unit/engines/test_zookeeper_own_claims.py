"""ZooKeeper's own claims: the table is whole after every call, also if a call interrupts another.

A garbage collection or a signal handler may run lockfast code in a thread at any instruction: a
generator that was left inside `with lock:` releases, a handler of SIGTERM too.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, cast

import pytest

from lockfast.engines.zookeeper import own_claims as module
from lockfast.engines.zookeeper.failures import SessionLost
from lockfast.engines.zookeeper.own_claims import OwnClaim, OwnClaims
from lockfast.engines.zookeeper.reaper import Reaper
from lockfast.engines.zookeeper.session import Session
from lockfast.port import Ask, Shape

PATIENCE = 20.0  # seconds after which a thread that should long be done hangs
NOW = 100.0


class Double:
    """Stands for a session."""

    def __init__(self) -> None:
        self.claims: set[str] = set()
        self.silent = False
        self.check: Callable[[], None] = lambda: None


class Book:
    """A table of own claims with a session, and claims on one name that are made when needed."""

    def __init__(self) -> None:
        self.own = OwnClaims()
        self.double = Double()
        self.session = cast("Session", self.double)
        self._number = 0

    def mine(self, deadline: float = NOW + 9) -> OwnClaim:
        self._number += 1
        ask = Ask(
            f"{self._number:032x}",
            Shape("x", 5.0),
            queue=True,
            not_after=NOW + 9,
            payload=b"",
        )
        return OwnClaim(ask, "/folder", self.session, deadline)

    def entered(self, deadline: float = NOW + 9) -> OwnClaim:
        mine = self.mine(deadline)
        self.own.enter(mine)
        return mine

    def check(self, alive: set[str]) -> None:
        own = self.own
        assert set(own._mine) == alive
        assert {mine.id for mine in own.within("/folder")} == alive
        assert self.session.claims == alive
        assert all(own._folders.values()), "a folder without claims is left"
        assert all(own._doomed.values()), "a folder without doomed claims is left"


def interrupted(work: Callable[[], object], at: int, handler: Callable[[], object]) -> bool:
    """Run the work, and the handler before its nth instruction within the table; tell whether it
    came that far.
    """
    left = at
    done = False

    def trace(frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401  # a trace function
        nonlocal left, done
        if frame.f_code.co_filename != module.__file__ or done:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left == 0:
                done = True
                handler()
        return trace

    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
    return done


def bounded(work: Callable[[], object]) -> None:
    """Run it in a thread, which may hang."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # the test raises it
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "a call in the middle of another hangs"
    if errors:
        raise errors[0]


OUTER = ["enter", "take", "doom", "doomed", "buried", "entomb", "on", "next"]
INNER = ["enter", "take", "take it", "doomed", "entomb"]


@pytest.mark.parametrize("outer", OUTER)
@pytest.mark.parametrize("inner", INNER)
def test_a_call_in_the_middle_of_a_call_finds_and_leaves_a_whole_ledger(
    outer: str, inner: str
) -> None:
    def every() -> None:
        once(0)  # Python 3.12 shows no instruction in the first call that asks for them
        at = 1
        while once(at):
            at += 1
        assert at > 5

    def once(at: int) -> bool:
        book = Book()
        own = book.own
        mate, other = book.entered(), book.mine()
        subject = book.mine() if outer == "enter" else book.entered(NOW - 1)
        if inner != "take":  # then the subject is alone on its name, whose folder comes and goes
            own.take(mate)
        if outer == "buried":
            own.doom(subject)
        works: dict[str, Callable[[], object]] = {
            "enter": lambda: own.enter(subject),
            "take": lambda: own.take(subject),
            "doom": lambda: own.doom(subject),
            "doomed": lambda: own.doomed(NOW),
            "buried": lambda: own.buried(subject),
            "entomb": lambda: own.entomb(subject.ask, NOW),
            "on": lambda: own.on(book.session),
            "next": own.next,
        }
        handlers: dict[str, Callable[[], object]] = {
            "enter": lambda: own.enter(other),
            "take": lambda: own.take(mate),
            "take it": lambda: own.take(subject),
            "doomed": lambda: own.doomed(NOW),
            "entomb": lambda: own.entomb(other.ask, NOW),
        }
        came = interrupted(works[outer], at, handlers[inner])
        own.take(subject)
        for mine in own.doomed(NOW):
            own.buried(mine)
        alive = {"take": {mate.id} - ({mate.id} if came else set())}
        alive["enter"] = {other.id} if came else set()
        book.check(alive.get(inner, set()))
        assert own.is_dead(other.ask, NOW) == (came and inner == "entomb")
        assert own.is_dead(subject.ask, NOW) == (outer == "entomb")
        return came

    bounded(every)


@pytest.mark.parametrize("outer", ["doom", "doomed"])
def test_ctrl_c_while_a_claim_is_doomed_does_not_forget_it(outer: str) -> None:
    """It was out of one table and not yet in the other. So nobody removed its node."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    def once(at: int) -> bool:
        book = Book()
        own, subject = book.own, book.entered(NOW - 1)
        work = {"doom": lambda: own.doom(subject), "doomed": lambda: own.doomed(NOW)}[outer]
        try:
            came = interrupted(work, at, interrupt)
        except KeyboardInterrupt:
            came = True
        assert own.doomed(NOW) == [subject]
        return came

    def every() -> None:
        once(0)  # Python 3.12 shows no instruction in the first call that asks for them
        at = 1
        while once(at):
            at += 1
        assert at > 5

    bounded(every)


def test_the_reaper_finds_a_claim_that_was_doomed_during_its_sweep_without_a_word() -> None:
    """Ctrl-C came before the caller could tell the reaper. No claim was left to wake it later."""
    book = Book()
    own = book.own
    first, second = book.entered(NOW - 1), book.entered()

    def check() -> None:
        own.doom(second)
        raise SessionLost

    book.double.check = check
    reaper = Reaper(own, lambda: NOW + time.monotonic() - began)
    began = time.monotonic()
    reaper.expect(first.deadline)
    while own.doomed(0.0) or own.get(first.id):
        assert time.monotonic() < began + 5.0, "the second one is still there"
        time.sleep(0.01)
    reaper.close()


def test_a_tombstone_is_never_shortened() -> None:
    book = Book()
    mine = book.mine()
    book.own.entomb(mine.ask, NOW)
    mine.ask.not_after = NOW - 50
    book.own.entomb(mine.ask, NOW)
    mine.ask.not_after = NOW + 9
    assert book.own.is_dead(mine.ask, NOW + 5)
