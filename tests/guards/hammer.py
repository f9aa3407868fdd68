"""Many processes increment one register under short leases, and are stopped in the midst of it.

A process acquires, seals, reads, and writes a batch of increments, each built on the one before.
Whoever holds is stopped now and then for longer than its lease, so that it goes on as a zombie.
Every write says which write it was built on, so the last value leads back to the first: the chain
holds exactly those that were applied. Then it is known, and not guessed, that
- every write that was acknowledged is in it: none was overwritten by somebody who had not read it;
- none that was refused is in it;
- of those whose outcome nobody knows (the connection broke at the commit), which were applied.

`python -m tests.guards.hammer URL MODULE:CLASS WHERE PLAN` is the smithy: one process that imports
everything once and forks the workers, and tells how far it is.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import mmap
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import lockfast
from lockfast import EngineError, LeaseLost, LockfastError, StaleToken
from tests.guards.story import Resource

_ROOT = Path(__file__).parents[2]
NAME = "hammer"
NOBODY = -1


class Register(Resource, Protocol):
    """A story's resource that blocks, and begins with the value `0 start`."""

    broken: ClassVar[tuple[type[Exception], ...]]
    """What it raises, beside lockfast's errors, when a write failed or its outcome is unknown."""


@dataclass(frozen=True)
class Plan:
    """How much of it."""

    folder: str
    increments: int = 20_000
    processes: int = 32
    ttl: float = 0.2
    batch: int = 60
    refusals: int = 110
    """How many zombies are wanted; not every stop makes one."""


@dataclass(frozen=True)
class Report:
    """What came of it."""

    value: int
    """The last value of the register: that many writes were applied, one on the other."""
    acknowledged: int
    unknown: int
    """Every other error: failed, or broken off at the commit."""
    unknown_applied: int
    refused: int
    """By the register: `StaleToken`."""
    lost: int
    """By its own clock, before it asked the register: `LeaseLost`."""
    missing: list[str]
    """Acknowledged, and overwritten by somebody who had not read them."""
    stale: list[str]
    """Refused, and applied all the same."""
    stops: int
    seconds: float


def hammer(
    url: str,
    resource: type[Register],
    where: str,
    plan: Plan,
    midway: Callable[[], None] = lambda: None,
) -> Report:
    """Strike; `midway` is called once, when half of it is done."""
    which = f"{resource.__module__}:{resource.__qualname__}"
    began = time.monotonic()
    smithy = subprocess.Popen(
        [sys.executable, "-m", "tests.guards.hammer", url, which, where, _packed(plan)],
        cwd=_ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said = ""
    halved = False
    try:
        assert smithy.stdout is not None
        for line in smithy.stdout:
            said = line
            if not halved and said[0] != "{" and int(said) * 2 >= plan.increments:
                halved = True
                midway()
        assert smithy.wait(30) == 0
    finally:
        with suppress(ProcessLookupError):
            os.killpg(smithy.pid, signal.SIGKILL)
        smithy.wait()
        assert smithy.stdout is not None
        smithy.stdout.close()
    found = json.loads(said)
    return _judged(plan, found["value"], found["stops"], time.monotonic() - began)


def _packed(plan: Plan) -> str:
    return json.dumps(dataclasses.asdict(plan))


def _judged(plan: Plan, last: str, stops: int, seconds: float) -> Report:
    built_on: dict[str, str] = {}
    outcomes: dict[str, set[str]] = {
        each: set() for each in ("acked", "refused", "lost", "unknown")
    }
    for path in Path(plan.folder).glob("*.log"):
        for line in path.read_text("ascii").splitlines():
            outcome, mine, base = line.split()
            outcomes[outcome].add(mine)
            built_on[mine] = base
    value, _, at = last.partition(" ")
    chain: set[str] = set()
    while at in built_on and at not in chain:
        chain.add(at)
        at = built_on[at]
    assert at == "start", f"the chain breaks at {at!r}"
    assert len(chain) == int(value)
    return Report(
        value=int(value),
        acknowledged=len(outcomes["acked"]),
        unknown=len(outcomes["unknown"]),
        unknown_applied=len(outcomes["unknown"] & chain),
        refused=len(outcomes["refused"]),
        lost=len(outcomes["lost"]),
        missing=sorted(outcomes["acked"] - chain),
        stale=sorted((outcomes["refused"] | outcomes["lost"]) & chain),
        stops=stops,
        seconds=seconds,
    )


# The smithy's side ------------------------------------------------------------------------------


class Board:
    """What the processes tell each other: who may be stopped, and how many did what.

    A slot per process and kind, so that no two write to the same place.
    """

    def __init__(self, processes: int) -> None:
        """Make it before the fork."""
        self._processes = processes
        self._slots = memoryview(mmap.mmap(-1, 4 * (2 + 2 * processes))).cast("i")
        self.holder = NOBODY

    @property
    def holder(self) -> int:
        """Who is in a batch, and may be stopped."""
        return self._slots[0]

    @holder.setter
    def holder(self, worker: int) -> None:
        self._slots[0] = worker

    @property
    def wanted(self) -> bool:
        """Whether somebody is to be stopped now."""
        return bool(self._slots[1])

    @wanted.setter
    def wanted(self, wanted: bool) -> None:
        self._slots[1] = wanted

    def count(self, kind: int, worker: int) -> None:
        """Count one more: 0 acknowledged, 1 refused."""
        self._slots[2 + kind * self._processes + worker] += 1

    def total(self, kind: int) -> int:
        """Give the sum over all workers."""
        start = 2 + kind * self._processes
        return sum(self._slots[start : start + self._processes])


class Worker:
    """One process that increments."""

    def __init__(self, number: int, board: Board, resource: Any, plan: Plan) -> None:
        self._number = number
        self._board = board
        self._resource = resource
        self._plan = plan
        self._written = 0
        self._log: list[str] = []

    def run(self, url: str) -> None:
        """Work until enough is done, and leave a log."""
        with lockfast.connect(url) as client:
            lock = client.lock(NAME, ttl=self._plan.ttl)
            while self._board.total(0) < self._plan.increments:
                # They do not queue: the heart of a waiter costs as much as an increment.
                with suppress(EngineError):  # it is being started again
                    lease = lock.try_acquire()
                    if lease is not None:
                        self._hold(lease)
                time.sleep(random.uniform(0.0, 0.3))  # noqa: S311  # no secret
        self._resource.close()
        path = Path(self._plan.folder) / f"{self._number}.log"
        path.write_text("\n".join(self._log), "ascii")

    def _hold(self, lease: lockfast.Lease) -> None:
        with suppress(LockfastError, *self._resource.broken):
            self._resource.seal(lease)
            self._batch(lease)
        if self._board.holder == self._number:
            self._board.holder = NOBODY
        with suppress(LockfastError):
            lease.release()

    def _batch(self, lease: lockfast.Lease) -> None:
        value, _, base = str(self._resource.read(lease)).partition(" ")
        first = int(value) + 1
        pause = first + random.randrange(self._plan.batch)  # noqa: S311  # no secret
        for number in range(first, first + self._plan.batch):
            if self._board.total(0) >= self._plan.increments:
                return
            if number == pause and self._board.wanted:
                self._board.holder = self._number  # from here on it may be stopped
                if random.random() < 0.8:  # noqa: S311  # mostly here, between two writes
                    time.sleep(0.05)
            base = self._increment(lease, number, base)

    def _increment(self, lease: lockfast.Lease, number: int, base: str) -> str:
        self._written += 1
        mine = f"{self._number}.{self._written}"
        try:
            self._resource.write(lease, f"{number} {mine}")
        except StaleToken:
            self._board.count(1, self._number)
            self._say("refused", mine, base)
            raise
        except LeaseLost:
            self._say("lost", mine, base)
            raise
        except BaseException:
            self._say("unknown", mine, base)
            raise
        self._board.count(0, self._number)
        self._say("acked", mine, base)
        return mine

    def _say(self, outcome: str, mine: str, base: str) -> None:
        self._log.append(f"{outcome} {mine} {base}")


class Tormentor:
    """Stops whoever is in a batch, for longer than its lease, and lets it go on as a zombie."""

    def __init__(self, pids: list[int], board: Board, plan: Plan) -> None:
        self._pids = pids
        self._board = board
        self._plan = plan
        self._stopped: dict[int, float] = {}
        self.stops = 0

    def step(self) -> None:
        """Look once."""
        now = time.monotonic()
        for worker, until in list(self._stopped.items()):
            if now >= until:
                del self._stopped[worker]
                os.kill(self._pids[worker], signal.SIGCONT)
        share = self._board.total(0) / self._plan.increments
        wanted = self._board.total(1) + len(self._stopped) < self._plan.refusals * share + 1
        self._board.wanted = wanted
        holder = self._board.holder
        if wanted and holder != NOBODY and holder not in self._stopped:
            os.kill(self._pids[holder], signal.SIGSTOP)
            self._board.holder = NOBODY
            self.stops += 1
            self._stopped[holder] = now + self._plan.ttl * random.uniform(1.5, 2.5)  # noqa: S311  # no secret

    def mercy(self) -> None:
        """Let everybody go on."""
        while self._stopped:
            os.kill(self._pids[self._stopped.popitem()[0]], signal.SIGCONT)


def main() -> None:
    """Fork the workers, torment them, and tell how it ended."""
    url, which, where, packed = sys.argv[1:]
    plan = Plan(**json.loads(packed))
    module, _, name = which.partition(":")
    resource = getattr(importlib.import_module(module), name)
    board = Board(plan.processes)
    pids = [
        _forked(Worker(each, board, resource(where), plan), url) for each in range(plan.processes)
    ]
    tormentor = Tormentor(pids, board, plan)
    told = 0.0
    while (done := board.total(0)) < plan.increments:
        tormentor.step()
        if time.monotonic() > told:
            told = time.monotonic() + 0.1
            print(done, flush=True)  # noqa: T201  # to the test
        time.sleep(0.002 * random.random())  # noqa: S311  # no secret
    tormentor.mercy()
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    assert codes == [0] * plan.processes, codes
    register = resource(where)
    print(json.dumps({"value": register.read(None), "stops": tormentor.stops}))  # noqa: T201  # to the test
    register.close()


def _forked(worker: Worker, url: str) -> int:
    pid = os.fork()
    if not pid:
        code = 1
        try:
            worker.run(url)
            code = 0
        except BaseException:  # noqa: BLE001  # it is shown, and the exit code tells
            traceback.print_exc()
        finally:
            os._exit(code)
    return pid


if __name__ == "__main__":
    main()
