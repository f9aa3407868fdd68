"""The watchdog: a process beside lockfast, the parent of the command and all its descendants.

It knows how long the lease is valid, and ends the command before that, whether or not lockfast is
alive to ask for it. It exits when lockfast has ended and no process of the command is left.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from lockfast.cli.supervise import descendants
from lockfast.cli.supervise.exec_command import become
from lockfast.cli.supervise.messages import (
    Ended,
    Forward,
    Kill,
    Order,
    Report,
    ReportLine,
    Start,
    Started,
    Stopped,
    Until,
)
from lockfast.cli.supervise.plan import Plan
from lockfast.cli.supervise.poll import ready
from lockfast.runtime.base import now

NAP = 0.5  # seconds to sleep at most: poll does not count the time while the machine is suspended
HASTE = 0.005  # seconds before KILL is sent again, to processes that were forked meanwhile


@dataclass(slots=True)
class Job:
    """A started command, while any process of it is alive."""

    group: int
    until: float
    status: int | None = None
    """The wait status of the command itself, once it has ended."""
    frozen: bool = False
    ending: float | None = None
    """When the watchdog began to end it; None while it may run."""
    at_once: bool = False
    """Whether to send KILL now, because the grace is over or there is none."""
    by_lease: bool = False
    haste: float = HASTE


class Watchdog:
    """Starts the command on lockfast's order, reaps its processes, and ends them by the plan."""

    def __init__(
        self, line: ReportLine, command: Sequence[str], plan: Plan, *, freeze: bool
    ) -> None:
        """Keep what is the same for every start of the command."""
        self._line = line
        self._command = command
        self._plan = plan
        self._freeze = freeze
        self._alone = False
        self._job: Job | None = None
        self._bell, self._gong = socket.socketpair()

    def serve(self) -> None:
        """Run until lockfast has ended and no process of the command is left."""
        descendants.take_name(b"lf-watchdog")  # so that `pkill -STOP lockfast` does not match it
        descendants.adopt_orphans()
        self._stay_awake()
        while not self._alone or self._job is not None:
            self._listen(self._pause())
            childless = self._reap()
            if self._job is not None:
                self._act(self._job, now(), childless=childless)

    def _stay_awake(self) -> None:
        """Keep signals from ending the watchdog: it ends after lockfast, when the pipe has ended.

        This installs handlers and not SIG_IGN, because the command would inherit SIG_IGN.
        """
        self._bell.settimeout(0.0)
        self._gong.settimeout(0.0)
        signal.set_wakeup_fd(self._bell.fileno(), warn_on_full_buffer=False)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                signal.signal(number, lambda _number, _frame: None)

    def _pause(self) -> float:
        job = self._job
        if job is None:
            return NAP
        if job.at_once:
            return job.haste
        due = self._kill_at(job) if job.ending is not None else self._plan.term_at(job.until)
        if self._freeze and not job.frozen and job.ending is None:
            due = min(due, self._plan.freeze_at(job.until))
        return min(max(due - now(), 0.0), NAP)

    def _kill_at(self, job: Job) -> float:
        latest = self._plan.kill_at(job.until)
        return latest if job.ending is None else min(job.ending + self._plan.grace, latest)

    def _listen(self, seconds: float) -> None:
        watched = [self._gong.fileno()] + ([] if self._alone else [self._line.fileno()])
        ready(watched, seconds)
        with suppress(BlockingIOError):
            self._gong.recv(4096)
        try:
            while not self._alone and self._line.poll():
                self._obey(self._line.recv())
        except (EOFError, OSError):  # lockfast has ended, or was killed
            self._alone = True

    def _obey(self, order: Order) -> None:
        job = self._job
        if isinstance(order, Start):
            self._job = self._start(order)
        elif job is None:
            return  # the command has just ended
        elif isinstance(order, Until):
            job.until = max(job.until, order.until)
        elif isinstance(order, Kill):
            self._end(job, by_lease=True, at_once=True)
        elif isinstance(order, Forward):
            self._forward(job, order.number)

    def _start(self, order: Start) -> Job:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        pid = os.fork()
        if not pid:
            become(self._command, order, mask)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        with suppress(OSError):  # the child does the same, and may already run the command
            os.setpgid(pid, pid)
        self._say(Started(pid))
        return Job(pid, order.until)

    @staticmethod
    def _forward(job: Job, number: int) -> None:
        if job.frozen and number == signal.SIGCONT:
            return  # a frozen command continues only when the lease was renewed
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(job.group, number)

    def _reap(self) -> bool:
        """Reap ended children. Return whether no child is left, not even an adopted one."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return True
            if not pid:
                return False
            job = self._job
            if job is None or pid != job.group:
                continue
            if not os.WIFSTOPPED(status):
                job.status = status
            elif not job.frozen:
                self._say(Stopped(os.WSTOPSIG(status)))

    def _act(self, job: Job, time: float, *, childless: bool) -> None:
        if childless:
            self._job = None
            self._say(Ended(job.status or 0, job.by_lease))
            return
        if job.ending is None:
            if job.status is not None:
                self._end(job)  # end the processes that the command left running
            elif self._alone or time >= self._plan.term_at(job.until):
                self._end(job, by_lease=True)
            elif self._freeze:
                self._chill(job, time >= self._plan.freeze_at(job.until))
        if job.ending is not None and (job.at_once or time >= self._kill_at(job)):
            if job.at_once:
                # A process that waits for a disk dies only when the disk answers.
                job.haste = min(job.haste * 2.0, NAP)
            job.at_once = True
            descendants.send(os.getpid(), job.group, signal.SIGKILL)

    def _end(self, job: Job, *, by_lease: bool = False, at_once: bool = False) -> None:
        job.by_lease = job.by_lease or by_lease
        job.at_once = job.at_once or at_once
        if job.ending is None:
            job.ending = now()
            if not at_once:
                descendants.send(os.getpid(), job.group, signal.SIGTERM)
                descendants.send(
                    os.getpid(), job.group, signal.SIGCONT
                )  # a stopped process handles TERM only when it continues

    @staticmethod
    def _chill(job: Job, cold: bool) -> None:  # noqa: FBT001  # a value, not a switch
        if cold != job.frozen:
            job.frozen = cold
            descendants.send(os.getpid(), job.group, signal.SIGSTOP if cold else signal.SIGCONT)

    def _say(self, report: Report) -> None:
        if not self._alone:
            try:
                self._line.send(report)
            except OSError:
                self._alone = True
