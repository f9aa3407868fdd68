"""Catches the signals that lockfast gets, to end a wait for the lock or to pass them on."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import FrameType, TracebackType
from typing import NoReturn, Self, TypeVar

from lockfast.cli.supervise.poll import ready

T = TypeVar("T")

OWN = {
    *(signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP),
    *(signal.SIGCHLD, signal.SIGPIPE, signal.SIGTTIN, signal.SIGTTOU),
    *(signal.SIGKILL, signal.SIGSTOP),
}
"""Signals that are not caught: they concern this process alone, or cannot be caught."""
MILD = {signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
"""Signals that do not end a process by default, and so do not end a wait."""


class Interrupted(Exception):
    """A signal ended the wait for the lock."""

    def __init__(self, number: int) -> None:
        """Keep the number of the signal."""
        super().__init__(number)
        self.number = number


class Signals:
    """Catches signals for as long as the `with` block lasts. `take` returns those that came."""

    def __init__(self) -> None:
        """Catch nothing yet."""
        self._before: dict[int, signal._HANDLER] = {}
        self._in, self._out = socket.socketpair()

    def wait_for(self, work: Callable[[], T]) -> T:
        """Return the result of work that blocks. Raise `Interrupted` if a signal comes first.

        The work then continues in its thread until the caller closes the client. It has a thread of
        its own because Python runs signal handlers only in the main thread, while the kernel may
        deliver a signal to any thread. A main thread that is blocked in a lock would not wake up.
        """
        done: list[Callable[[], T]] = []

        def settle() -> None:
            done.append(_result(work))
            self.wake()

        # The caller's name, because `who` and `ls` show the thread that acquired a lock.
        name = threading.current_thread().name
        threading.Thread(target=settle, name=name, daemon=True).start()
        while not done:
            ready([self.fileno()])
            self.interrupt()
        return done[0]()

    def interrupt(self) -> None:
        """Raise `Interrupted` if a signal has come that ends a wait. Stop here after SIGTSTP."""
        for number in self.take():
            if number == signal.SIGTSTP:
                self.pause()
            elif number not in MILD:
                raise Interrupted(number)

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when a signal or a `wake` comes."""
        return self._out.fileno()

    def take(self) -> list[int]:
        """Return the numbers of the signals that came since the last call."""
        with suppress(BlockingIOError):
            return [number for number in self._out.recv(4096) if number]
        return []

    def wake(self) -> None:
        """End the sleep of the thread that waits for signals. Callable from any thread."""
        with suppress(OSError):
            self._in.send(b"\0")

    @staticmethod
    def pause() -> None:
        """Stop lockfast's process group, as the terminal does on Ctrl-Z. Return when continued.

        The kernel does not stop a group that has no shell to continue it.
        """
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.killpg(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)

    def __enter__(self) -> Self:
        """Catch the signals, but not those that `nohup` or the shell's `&` have set to ignored."""
        self._in.settimeout(0.0)
        self._out.settimeout(0.0)
        signal.set_wakeup_fd(self._in.fileno(), warn_on_full_buffer=False)
        for number in signal.valid_signals() - OWN:
            if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                self._before[number] = signal.signal(number, _heard)
        # With `stty tostop`, the kernel would stop lockfast if it wrote from the background.
        self._before[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the handlers from before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        self._in.close()
        self._out.close()


def _heard(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: Python has already written the signal's number to the wakeup descriptor."""


def _result(work: Callable[[], T]) -> Callable[[], T]:
    """Do the work, and return a function that returns its result or raises its error."""
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001  # `wait_for` raises it again
        return partial(_fail, error)
    return lambda: result


def _fail(error: BaseException) -> NoReturn:
    raise error
