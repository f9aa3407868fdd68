"""The victim of Ctrl-C: a program that acquires and releases, and is interrupted as it does.

It takes orders on its standard input, one in a line, and answers each with a line of JSON:
`timer FORM NAMES COUNT` and `shape FORM NAMES COUNT` are interrupted by an alarm of their own, on
one lock or on another shape of locks, `outside FORM NAMES COUNT` by
whoever sends it SIGINT, `first COUNT` by an alarm in the first use of a new client, `check NAMES`
shows that the client still works. NAMES is `new` for a name per operation, or names with commas.
"""

from __future__ import annotations

import dis
import faulthandler
import itertools
import json
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

import lockfast
from lockfast.claims.heart import Heart

TTL = 3.0
_PACKAGE = str(Path(lockfast.__file__).parent)
_RESUME = dis.opmap["RESUME"]
_WARM = 50  # operations that tell how long one takes
_REACH = 1.3  # alarms go off up to this many durations after the start


def plain(lock: lockfast.Lock) -> None:
    """Acquire and release, as a careful program does."""
    lease = lock.acquire()
    try:
        lease.ensure_held()
    finally:
        lease.release()


def block(lock: lockfast.Lock) -> None:
    """Hold the lock for the length of a block."""
    with lock:
        pass


def attempt(lock: lockfast.Lock) -> None:
    """Take the lock if it is free."""
    lease = lock.try_acquire()
    if lease is not None:
        lease.release()


def many(client: lockfast.Client, names: list[str]) -> None:
    """Hold several locks for the length of a block."""
    with client.lock_all(*names, ttl=TTL, timeout=10.0):
        pass


def many_plain(client: lockfast.Client, names: list[str]) -> None:
    """Take several locks at once, as a careful program does."""
    leases = client.lock_all(*names, ttl=TTL, timeout=10.0).acquire()
    try:
        leases.ensure_held()
    finally:
        leases.release()


def again(client: lockfast.Client, names: list[str]) -> None:
    """Hold a lock, and take it again inside."""
    with client.rlock(names[0], ttl=TTL, timeout=10.0), client.rlock(names[0], ttl=TTL):
        pass


FORMS = {"plain": plain, "block": block, "attempt": attempt}
SHAPES = {"many": many, "many_plain": many_plain, "again": again}


class Storm:
    """Counts the interrupts, and remembers where each of them hit."""

    def __init__(self) -> None:
        """Begin in calm."""
        self.armed = False
        self.at_door = False
        self.clear()

    def clear(self) -> None:
        """Count anew."""
        self.hits = 0
        self.inside = 0
        self.scars: dict[str, list[str]] = {}
        self.doors: dict[str, list[str]] = {}

    def strike(self, signum: int, frame: FrameType | None) -> None:
        """Do what Ctrl-C does, if it comes while an operation runs."""
        if self.armed:
            self.armed = False
            self.at_door = frame is not None and _at_door(frame)
            signal.default_int_handler(signum, frame)

    def suffer(self, name: str, operation: Callable[[], None], delay: float | None) -> None:
        """Run an operation that may be interrupted."""
        try:
            try:
                self.armed = True
                if delay is not None:
                    signal.setitimer(signal.ITIMER_REAL, delay)
                operation()
            finally:
                self.armed = False
        except KeyboardInterrupt as error:
            self._note(name, error)

    def _note(self, name: str, error: KeyboardInterrupt) -> None:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename != __file__]
        where = [f"{Path(f.filename).name}:{f.lineno} {f.name}: {f.line}" for f in frames]
        if self.at_door:
            self.doors[name] = where
            return
        self.hits += 1
        self.scars[name] = where
        if any(frame.filename.startswith(_PACKAGE) for frame in frames):
            self.inside += 1


def _at_door(frame: FrameType) -> bool:
    """Tell whether a call of lockfast has been made but not begun.

    CPython looks for signals at the first instruction of a function, before any `try` in it, so
    an interrupt there is one before the call: no code could catch it.
    """
    outer = frame.f_back
    return (
        frame.f_code.co_filename.startswith(_PACKAGE)
        and (outer is None or not outer.f_code.co_filename.startswith(_PACKAGE))
        and frame.f_code.co_code[frame.f_lasti] == _RESUME
    )


class Victim:
    """The program: one client for its whole life, as is usual."""

    def __init__(self, url: str) -> None:
        """Nothing is opened yet."""
        self.url = url
        self.client = lockfast.connect(url)
        self.storm = Storm()
        self.locks: dict[str, lockfast.Lock] = {}
        self.numbers = itertools.count()

    def lock(self, names: str) -> lockfast.Lock:
        """Choose a lock. All of them are kept, as a program keeps those of its modules."""
        name = random.choice(names.split(","))  # noqa: S311  # no secret
        if name == "new":
            name = f"once:{next(self.numbers)}"
        if name not in self.locks:
            self.locks[name] = self.client.lock(name, ttl=TTL, timeout=10.0)
        return self.locks[name]

    def timer(self, form: str, names: str, count: str) -> dict[str, object]:
        """Be interrupted by an alarm at a random moment of each operation."""
        began = time.perf_counter()
        for _ in range(_WARM):
            FORMS[form](self.lock(names))
        reach = _REACH * (time.perf_counter() - began) / _WARM
        while self.storm.hits < int(count):
            delay = random.uniform(1e-6, reach)  # noqa: S311  # no secret
            lock = self.lock(names)
            self.storm.suffer(lock.name, partial(FORMS[form], lock), delay)
        return self.report()

    def shape(self, form: str, names: str, count: str) -> dict[str, object]:
        """Be interrupted by an alarm, in another shape of lock: on some names at once."""
        began = time.perf_counter()
        for _ in range(_WARM):
            SHAPES[form](self.client, self.some(names))
        reach = _REACH * (time.perf_counter() - began) / _WARM
        while self.storm.hits < int(count):
            delay = random.uniform(1e-6, reach)  # noqa: S311  # no secret
            some = self.some(names)
            self.storm.suffer(some[0], partial(SHAPES[form], self.client, some), delay)
        return self.report()

    def some(self, names: str) -> list[str]:
        """Choose some names, of which the first tells the others."""
        if names == "new":
            number = next(self.numbers)
            return [f"once:{number}", f"once:{number}.b", f"once:{number}.c"]
        return random.sample(names.split(","), 3)

    def outside(self, form: str, names: str, count: str) -> dict[str, object]:
        """Be interrupted by somebody else's SIGINT."""
        while self.storm.hits < int(count):
            lock = self.lock(names)
            self.storm.suffer(lock.name, partial(FORMS[form], lock), None)
        return self.report()

    def first(self, count: str) -> dict[str, object]:
        """Be interrupted in the first use of a client: no connection, no heart yet."""
        while self.storm.hits < int(count):
            with lockfast.connect(self.url) as client:
                name = f"once:{next(self.numbers)}"
                lock = client.lock(name, ttl=TTL)
                delay = random.uniform(1e-6, 2e-3)  # noqa: S311  # no secret
                self.storm.suffer(name, partial(plain, lock), delay)
                with client.lock(f"{name}:then", ttl=TTL, timeout=1.0):
                    pass
        return self.report()

    def report(self) -> dict[str, object]:
        """Tell what happened, and count anew."""
        storm = self.storm
        said = {
            "hits": storm.hits,
            "inside": storm.inside,
            "scars": storm.scars,
            "doors": storm.doors,
        }
        storm.clear()
        return said

    def check(self, names: str) -> dict[str, object]:
        """Show that the client works as if nothing had happened."""
        for name in names.split(","):
            with self.client.lock(name, ttl=TTL, timeout=1.0) as lease:
                lease.ensure_held()
        # A heart that another has replaced, or whose client was closed, may sleep out its sleep.
        deadline = time.monotonic() + TTL
        while _hearts() > 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        claims = self.client._session.table._by_id.values()
        return {
            "claims": [f"{each.shape.name} {each.phase.name}" for each in claims],
            "hearts": _hearts(),
        }


def _hearts() -> int:
    """Count the threads that a heart beats in, by what they are doing."""
    return sum(
        any(frame.f_code is Heart._live.__code__ for frame, _ in traceback.walk_stack(top))
        for top in sys._current_frames().values()
    )


def main(url: str) -> None:
    """Take orders until the input ends."""
    faulthandler.register(signal.SIGUSR1)  # shows where a hang hangs
    victim = Victim(url)
    signal.signal(signal.SIGALRM, victim.storm.strike)
    signal.signal(signal.SIGINT, victim.storm.strike)
    orders: dict[str, Callable[..., dict[str, object]]] = {
        "timer": victim.timer,
        "shape": victim.shape,
        "outside": victim.outside,
        "first": victim.first,
        "check": victim.check,
    }
    for line in sys.stdin:
        order, *arguments = line.split()
        answer = json.dumps(orders[order](*arguments))
        # A signal while a long line goes into a pipe makes CPython 3.11 drop the rest of the line.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(answer, flush=True)  # noqa: T201  # its answer
        signal.signal(signal.SIGINT, victim.storm.strike)
    victim.client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
