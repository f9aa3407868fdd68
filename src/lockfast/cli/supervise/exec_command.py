"""Turns a forked child of the watchdog into the command, with its own group and the terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from typing import NoReturn

from lockfast.cli.supervise import descendants
from lockfast.cli.supervise.messages import Start
from lockfast.cli.supervise.terminal import Terminal

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # the exit codes that shells use


def become(command: Sequence[str], order: Start, mask: Iterable[int]) -> NoReturn:
    """Replace this process, a forked child of the watchdog, by the command. Never return.

    If the command cannot be run, exit without running Python's exit handlers.

    The caller has blocked all signals, and `mask` is the signal mask from before. The watchdog's
    handlers do nothing, so without this a signal that comes before the command runs would be lost.
    """
    code = NOT_EXECUTABLE
    try:
        descendants.die_with_parent()
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)
        os.setpgid(0, 0)
        if order.in_front:
            Terminal().give(os.getpid())
        # Python ignores these two signals, and the command would inherit that through exec.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvpe(command[0], list(command), order.environment)  # noqa: S606  # the user asked to run it
    except FileNotFoundError:
        code = NOT_FOUND
        os.write(2, f"lockfast: command not found: {command[0]!r}\n".encode())
    except BaseException as error:  # noqa: BLE001  # the child must not run the watchdog's code
        os.write(2, f"lockfast: {command[0]!r} cannot be run: {error}\n".encode())
    finally:
        os._exit(code)
