"""Runs several replicas as processes that share the listening sockets, and replaces those that die.

The sockets are shared, and not each process's own by SO_REUSEPORT: the connections that wait in
the backlog of a process that dies would be lost with it.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from collections import deque
from contextlib import suppress
from types import FrameType

from lockfast.service.board import Board

log = logging.getLogger("lockfast")
DEATHS = 10  # of workers, within `WINDOW` seconds: then something is wrong that stays
WINDOW = 60.0
PAUSE = 0.2  # seconds before a worker is replaced
GIVEN_UP = 70  # the exit code, EX_SOFTWARE
ENDING = (signal.SIGINT, signal.SIGTERM)
SIGNALS = (*ENDING, signal.SIGHUP)


class Worker:
    """What a worker has from its parent."""

    def __init__(self, number: int, board: Board, parent: int) -> None:
        """Take the number of the worker."""
        self.number = number
        self.board = board
        self.parent = parent
        """A file descriptor that can be read when the parent has ended."""

    def sign(self, record: logging.LogRecord) -> bool:
        """Write the worker's number at the beginning of an entry of the log."""
        record.msg = f"worker {self.number}: {record.msg}"
        return True


class Supervisor:
    """The parent of the workers. It has no event loop and no thread."""

    def __init__(self, count: int, *, reloads: bool) -> None:
        """Start nothing yet. `reloads`: whether the workers handle SIGHUP."""
        self._board = Board(count)
        self._workers: dict[int, int] = {}
        """The number of each worker, by its process id."""
        self._waiting = deque(range(count))
        """The numbers of workers to be started."""
        self._deaths: deque[float] = deque(maxlen=DEATHS)
        self._ending = self._failed = False
        self._handled = SIGNALS if reloads else ENDING
        self._reading, self._writing = os.pipe()  # its end tells the workers that this one is dead

    def run(self) -> Worker | None:
        """Return in each worker. Return None in the parent, when all workers have ended.

        Raises `SystemExit` if they die again and again.
        """
        before = {number: signal.signal(number, self._handle) for number in self._handled}
        try:
            while self._workers or (self._waiting and not self._ending):
                while self._waiting and not self._ending:
                    worker = self._start(self._waiting.popleft())
                    if worker is not None:
                        return worker
                if self._workers:
                    self._ended(*os.waitpid(-1, 0))
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if self._failed:
            raise SystemExit(GIVEN_UP)
        return None

    def _start(self, number: int) -> Worker | None:
        """Start a worker. Return what it needs, in the new process."""
        # A signal between the fork and the next line would not reach the worker, or a worker would
        # handle it as the parent does.
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        process = os.fork()
        if process:
            self._workers[process] = number
        else:
            os.close(self._writing)
            for each in self._handled:
                signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return None if process else Worker(number, self._board, self._reading)

    def _ended(self, process: int, status: int) -> None:
        """Replace a worker that has ended, unless all are to end."""
        number = self._workers.pop(process, None)
        if number is None or self._ending:
            return
        now = time.monotonic()
        code = os.waitstatus_to_exitcode(status)
        why = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        if len(self._deaths) == DEATHS and self._deaths[0] > now - WINDOW:
            log.error("worker %d ended %s. It was one of too many: the service ends", number, why)
            self._failed = True
            self._end(signal.SIGTERM)
            return
        log.error("worker %d ended %s, and is started again", number, why)
        self._deaths.append(now)
        time.sleep(PAUSE)
        self._waiting.append(number)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # Python's
        """Pass a signal on to all workers.

        Ctrl-C in a terminal reaches the workers too, and a second one ends them at once. So the
        first one is passed on as SIGTERM.
        """
        if number == signal.SIGHUP:
            self._send(number)
        else:
            self._end(number if self._ending else signal.SIGTERM)

    def _end(self, number: int) -> None:
        self._ending = True
        self._send(number)

    def _send(self, number: int) -> None:
        for process in list(self._workers):
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(process, number)
