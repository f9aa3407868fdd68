"""Signals that lockfast gets: while it waits they end the wait, later they are the command's."""

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
"""Those that are about this very process, and those that nobody can take."""
MILD = {signal.SIGCONT, signal.SIGURG, signal.SIGWINCH}
"""Those that end nobody."""


class Interrupted(Exception):
    """A signal ended the wait."""

    def __init__(self, number: int) -> None:
        """Keep its number."""
        super().__init__(number)
        self.number = number


class Signals:
    """Takes the signals for as long as the `with` block lasts."""

    def __init__(self) -> None:
        """Take none yet."""
        self._before: dict[int, signal._HANDLER] = {}
        self._in, self._out = socket.socketpair()

    def wait_for(self, work: Callable[[], T]) -> T:
        """Do work that blocks, but let a signal end the wait: then raise `Interrupted`, and leave
        the work to whoever closes the client.

        In a thread of its own, since the kernel gives a signal to any thread, and Python runs a
        handler only in the main one: blocked in a lock, it would sleep through it.
        """
        done: list[Callable[[], T]] = []

        def settle() -> None:
            done.append(_result(work))
            self.wake()

        # By the name of the thread it works for: it is shown to whoever asks who holds the lock.
        name = threading.current_thread().name
        threading.Thread(target=settle, name=name, daemon=True).start()
        while not done:
            ready([self.fileno()])
            self.interrupt()
        return done[0]()

    def interrupt(self) -> None:
        """Raise `Interrupted` if a signal has come that ends a wait."""
        for number in self.take():
            if number == signal.SIGTSTP:
                self.pause()
            elif number not in MILD:
                raise Interrupted(number)

    def fileno(self) -> int:
        """Return what is readable when there is something to take."""
        return self._out.fileno()

    def take(self) -> list[int]:
        """Return the signals that came since the last time."""
        with suppress(BlockingIOError):
            return [number for number in self._out.recv(4096) if number]
        return []

    def wake(self) -> None:
        """End the sleep of whoever waits for signals. From any thread."""
        with suppress(OSError):
            self._in.send(b"\0")

    @staticmethod
    def pause() -> None:
        """Stop, with the whole group, as the terminal would have stopped it; return when continued.

        A group without a shell to continue it is not stopped by the kernel.
        """
        before = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.killpg(0, signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, before)

    def __enter__(self) -> Self:
        """Take them, but leave alone what was ignored: `nohup` and `&` mean it."""
        self._in.settimeout(0.0)
        self._out.settimeout(0.0)
        signal.set_wakeup_fd(self._in.fileno(), warn_on_full_buffer=False)
        for number in signal.valid_signals() - OWN:
            if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                self._before[number] = signal.signal(number, _heard)
        # With `stty tostop`, a warning that is written from behind would stop us.
        self._before[signal.SIGTTOU] = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore them."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        self._in.close()
        self._out.close()


def _heard(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the kernel's part of it has put the number where `take` finds it."""


def _result(work: Callable[[], T]) -> Callable[[], T]:
    """Do it, and give what gives its result, or raises its error."""
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001  # raised again where it is waited for
        return partial(_fail, error)
    return lambda: result


def _fail(error: BaseException) -> NoReturn:
    raise error
