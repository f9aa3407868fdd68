"""Where the hammer strikes: the workers, and who stops them.

`python -m tests.guards.smithy URL MODULE:CLASS WHERE PLAN` is one process that imports everything
once and forks the workers; it tells how far it is, and at last what the register holds.
"""

from __future__ import annotations

import importlib
import json
import mmap
import os
import random
import signal
import sys
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import lockfast
from lockfast import EngineError, LeaseLost, LockfastError, StaleToken
from tests.guards.hammer import Plan

NAME = "hammer"
NOBODY = -1


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
