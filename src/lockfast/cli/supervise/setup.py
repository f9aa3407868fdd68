"""Sets up all that a command under a lease needs: the watchdog, the signals, the terminal."""

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
    """What a command under a lease needs. Made by `staged`."""

    def __init__(self, plan: Plan, watchdog: Handle, signals: Signals, terminal: Terminal) -> None:
        """Keep the parts. Use `staged` instead."""
        self._plan = plan
        self._watchdog = watchdog
        self._terminal = terminal
        self.signals = signals

    @property
    def can_go_on(self) -> bool:
        """Whether the watchdog is alive, so that the command can be started again."""
        return self._watchdog.alive

    def keep(self, lease: lockfast.Lease) -> Outcome:
        """Run the command under a lease, release the lease, and return how the command ended."""
        keeper = Keeper(lease, self._plan, self._watchdog, self.signals, self._terminal)
        outcome = keeper.run()
        if outcome.lost:  # the lease ends soon: wait for that, not for an unreachable engine
            lease.wait_lost(lease.remaining)
        try:
            lease.release()
        except LeaseLost as error:
            if not outcome.lost:  # it was lost after its last renewal
                say(str(error))
                return Outcome(Code.LOST, lost=True)
        except EngineError as error:  # the command has ended normally, and the lease will expire
            say(f"the lease on {lease.name!r} was not released, and expires by itself: {error}")
        return outcome


@contextmanager
def staged(command: Sequence[str], plan: Plan, *, freeze: bool, keep_url: bool) -> Iterator[Stage]:
    """Set up a `Stage`. When the block ends, no process of the command is left.

    Call this before a client is made, because it forks the watchdog, and a client has threads.

    Without `keep_url`, neither the watchdog nor the command gets LOCKFAST_URL in its environment.
    The URL holds the engine's password, the command seldom needs it, and a command that fails may
    log or mail its environment.
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
    """Return the exit code. If SIGINT ended the command, end lockfast by SIGINT instead.

    A script that only sees the exit code 130 would continue. If the command was in the terminal's
    foreground, send SIGINT to lockfast's whole group, as the terminal would have done had the
    command been in it.
    """
    if outcome.signal == signal.SIGINT:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        if outcome.was_in_front:
            os.killpg(0, signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    return outcome.code
