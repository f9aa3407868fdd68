"""Runs a command under a lease: reports renewals to the watchdog, and trouble to the user."""

from __future__ import annotations

import os
import signal
from typing import NamedTuple

import lockfast
from lockfast.claims.release import explained
from lockfast.cli.exit_codes import Code, of_signal
from lockfast.cli.render.stderr import say
from lockfast.cli.supervise.messages import (
    Ended,
    Forward,
    Kill,
    Report,
    Start,
    Started,
    Stopped,
    Until,
)
from lockfast.cli.supervise.plan import Plan
from lockfast.cli.supervise.signals import Signals
from lockfast.cli.supervise.terminal import Terminal
from lockfast.cli.supervise.watchdog_handle import Handle, WatchdogDied
from lockfast.errors import LeaseLost, Loss
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive

TICKS = 20  # checks of the lease per ttl


class Outcome(NamedTuple):
    """How a command ended."""

    code: int
    lost: bool = False
    """Whether lockfast ended the command because the lease was not kept."""
    signal: int = 0
    """The signal that ended the command, or the wait for the lock; 0 if none did."""
    was_in_front: bool = False
    """Whether the command was in the terminal's foreground when the signal ended it.

    The terminal may then have sent the signal, and only to the command's group.
    """


class Keeper:
    """Runs the command once, under one lease."""

    def __init__(
        self,
        lease: lockfast.Lease,
        plan: Plan,
        watchdog: Handle,
        signals: Signals,
        terminal: Terminal,
    ) -> None:
        """Keep the parts; `run` starts the command."""
        self._lease = lease
        self._plan = plan
        self._watchdog = watchdog
        self._signals = signals
        self._terminal = terminal
        self._group = 0
        self._told = 0.0
        self._worried = False
        self._cause = Loss.UNREACHABLE  # why the lease was in jeopardy the last time
        self._killed = False

    def run(self) -> Outcome:
        """Run the command and return how it ended. No process of it is left then."""
        self._lease.on_lost(self._signals.wake)
        try:
            self._settle()
            return self._watch()
        except LeaseLost as error:  # before the command was started
            say(str(error))
            return Outcome(Code.LOST, lost=True)
        except WatchdogDied as error:
            self._watchdog.kill()
            say(str(error))
            return Outcome(Code.INTERNAL)
        finally:
            self._terminal.take()

    def _settle(self) -> None:
        """Wait until the lease has half of its ttl left, which the plan needs.

        A lease that was granted after a wait starts with the time that the waiter had left. The
        heart renews it at once.
        """
        while self._lease.remaining < self._plan.ttl / 2.0:
            self._lease.ensure_held()
            self._watchdog.hear(self._signals, 0.01)
            self._signals.interrupt()

    def _watch(self) -> Outcome:
        in_front = self._terminal.is_plain()
        self._told = self._lease.valid_until
        self._watchdog.tell(Start(environment(self._lease), self._told, in_front))
        while True:
            left = self._plan.overdue_at(self._lease.valid_until) - now()
            pause = min(max(left, 0.0), self._plan.ttl / TICKS)
            report = self._watchdog.hear(self._signals, pause)
            if isinstance(report, Ended):
                return self._outcome(report)
            if left <= 0.0:
                self._watchdog.kill()
                say("the watchdog did not kill the command in time, so lockfast did")
                return Outcome(Code.LOST, lost=True)
            if report is not None:
                self._take(report, in_front=in_front)
            for number in self._signals.take():
                self._pass_on(number)
            self._look()

    def _take(self, report: Report, *, in_front: bool) -> None:
        if isinstance(report, Started):
            self._group = report.group
            if in_front:
                self._terminal.give(report.group)  # the command does the same; either may be first
        elif isinstance(report, Stopped) and self._terminal.exists:
            self._stopped(report.number)

    def _stopped(self, number: int) -> None:
        wants_terminal = number in {signal.SIGTTIN, signal.SIGTTOU}
        if not (wants_terminal and self._terminal.in_front):
            self._terminal.take()
            left = f"{self._lease.remaining:.0f} s"
            say(f"stopped: lockfast ends the command before the lease expires in {left}")
            self._signals.pause()
        self._go_on(wants_terminal=wants_terminal)

    def _go_on(self, *, wants_terminal: bool = False) -> None:
        """Continue the command: in the foreground after the shell's `fg`, but not after `bg`."""
        if self._terminal.in_front and (wants_terminal or self._terminal.is_plain()):
            self._terminal.give(self._group)
        self._watchdog.tell(Forward(signal.SIGCONT))

    def _pass_on(self, number: int) -> None:
        if number == signal.SIGCONT:
            self._go_on()
        else:
            self._watchdog.tell(Forward(number))

    def _look(self) -> None:
        """Send a loss or a renewal of the lease to the watchdog, and tell the user of jeopardy."""
        lease = self._lease
        state = lease.state
        if lease.loss is not None:
            if not self._killed:
                self._killed = True
                self._watchdog.tell(Kill())
            return
        if lease.valid_until > self._told:
            self._told = lease.valid_until
            self._watchdog.tell(Until(self._told))
        worried = state is lockfast.State.JEOPARDY
        if worried is not self._worried:
            self._worried = worried
            self._cause = Loss.AT_MOST if now() >= lease.claim.limit else Loss.UNREACHABLE
            left = f"lockfast sends TERM in {self._plan.term_at(lease.valid_until) - now():.1f} s"
            if not worried:
                said = "was renewed again"
            elif self._cause is Loss.AT_MOST:
                said = f"has reached its --at-most: {left}"
            else:
                said = f"was not renewed: {left}, unless it is renewed before"
            say(f"the lease on {lease.name!r} {said}")

    def _outcome(self, report: Ended) -> Outcome:
        if report.by_lease:
            lease = self._lease
            drive(explained(lease._session, lease.claim))  # noqa: SLF001  # reads who broke the lock
            # Without a loss, the lease has not ended yet: the command was ended before.
            why = self._cause.value if lease.loss is None else lease.claim.why()
            said = f"the lease on {lease.name!r} could not be kept, so lockfast ended the command"
            say(f"{said}: {why} {LeaseLost.reference()}")
            return Outcome(Code.LOST, lost=True)
        if os.WIFSIGNALED(report.status):
            number = os.WTERMSIG(report.status)
            return Outcome(of_signal(number), signal=number, was_in_front=self._terminal.given)
        return Outcome(os.waitstatus_to_exitcode(report.status))


def environment(lease: lockfast.Lease) -> dict[str, str]:
    """Return the command's environment: lockfast's own, and what the command shows to a guard."""
    own = {"LOCKFAST_NAME", "LOCKFAST_TOKEN", "LOCKFAST_TICKET", "LOCKFAST_FENCE_FLOOR"}
    found = {key: value for key, value in os.environ.items() if key not in own}
    found["LOCKFAST_NAME"] = lease.name
    found["LOCKFAST_TICKET"] = str(lease.ticket)
    try:
        found["LOCKFAST_TOKEN"] = str(lease.token)
    except TypeError:  # a lock that several hold at once has no token
        found["LOCKFAST_FENCE_FLOOR"] = str(lease.fence_floor)
    return found
