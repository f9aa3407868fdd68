"""How a process becomes the command: its group, the terminal, its end with its parent's."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Sequence
from typing import NoReturn

from lockfast.cli.supervise import descendants
from lockfast.cli.supervise.messages import Start
from lockfast.cli.supervise.terminal import Terminal

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # as shells say it


def become(command: Sequence[str], order: Start, mask: Iterable[int]) -> NoReturn:
    """Turn a forked child of the watchdog into the command. Nothing of Python's is run at exit.

    All signals are blocked, and `mask` is what was blocked before. The watchdog's handlers do
    nothing, so a signal that came before the command ran would have been lost.
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
        # Python ignores these two, and what is ignored stays so through exec.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.execvpe(command[0], list(command), order.environment)  # noqa: S606  # it is what was asked
    except FileNotFoundError:
        code = NOT_FOUND
        os.write(2, f"lockfast: there is no command {command[0]!r}\n".encode())
    except BaseException as error:  # noqa: BLE001  # a forked child must not go on as its parent
        os.write(2, f"lockfast: {command[0]!r} cannot be run: {error}\n".encode())
    finally:
        os._exit(code)
