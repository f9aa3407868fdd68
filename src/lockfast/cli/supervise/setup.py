"""All that a command under a lease needs: the watchdog, the signals, the terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import lockfast
from lockfast.cli.exit_codes import Code
from lockfast.cli.render.stderr import say
from lockfast.cli.supervise.plan import Plan
from lockfast.cli.supervise.run_under_lease import Keeper, Outcome
from lockfast.cli.supervise.signals import Signals
from lockfast.cli.supervise.terminal import Terminal
from lockfast.cli.supervise.watchdog_handle import Handle
from lockfast.errors import EngineError, LeaseLost


class Stage:
    """What `staged` sets up."""

    def __init__(self, plan: Plan, watchdog: Handle, signals: Signals, terminal: Terminal) -> None:
        """Use `staged` instead."""
        self._plan = plan
        self._watchdog = watchdog
        self._terminal = terminal
        self.signals = signals

    @property
    def can_go_on(self) -> bool:
        """Whether a command can be started again."""
        return self._watchdog.alive

    def keep(self, lease: lockfast.Lease) -> Outcome:
        """Run the command under a lease, and give the lease back."""
        keeper = Keeper(lease, self._plan, self._watchdog, self.signals, self._terminal)
        outcome = keeper.run()
        if outcome.lost:  # the engine is out of reach: wait for the end that is near, not for it
            lease.wait_lost(lease.remaining)
        try:
            lease.release()
        except LeaseLost as error:
            if not outcome.lost:  # it was gone, and the last renewal did not know yet
                say(str(error))
                return Outcome(Code.LOST, lost=True)
        except EngineError as error:  # the command has done its work: the ttl does the rest
            say(f"the lease on {lease.name!r} was not released, it ends by itself: {error}")
        return outcome


@contextmanager
def staged(command: Sequence[str], plan: Plan, *, freeze: bool, keep_url: bool) -> Iterator[Stage]:
    """Set the stage; nothing of a command is left on it at the end.

    To be called before a client is made: the watchdog is forked, and a client has threads.

    The URL holds the engine's password, and the command, which logs and mails its environment when
    it fails, seldom needs it. So neither the watchdog nor the command has it.
    """
    if not keep_url:
        os.environ.pop("LOCKFAST_URL", None)
    with (
        Handle(command, plan, freeze=freeze) as watchdog,
        Signals() as signals,
        Terminal() as terminal,
    ):
        yield Stage(plan, watchdog, signals, terminal)


def leave(outcome: Outcome) -> int:
    """Return the exit code.

    An end by Ctrl-C is passed on to the whole group, as the terminal would have done had the
    command been in it: a script that only sees the number 130 would go on.
    """
    if outcome.signal == signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if outcome.was_in_front:
            os.killpg(0, signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    return outcome.code
