"""The controlling terminal: which process group is in its foreground."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self


class Terminal:
    """The controlling terminal. If there is none, the methods do nothing.

    Only the process group in the foreground ("in front") can read from it and gets its Ctrl-C. The
    command has a group of its own. So lockfast puts that group in front, and its own group again
    when the command ends or is stopped.
    """

    def __init__(self) -> None:
        """Open the terminal, if there is one."""
        self._own = os.getpgrp()
        self._given = 0
        try:
            self._tty: int | None = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        except OSError:
            self._tty = None

    @property
    def exists(self) -> bool:
        """Whether this process has a controlling terminal."""
        return self._tty is not None

    @property
    def in_front(self) -> bool:
        """Whether lockfast's own group is in front."""
        return self._front() == self._own

    @property
    def given(self) -> bool:
        """Whether the command's group is in front."""
        return self._given != 0 and self._front() == self._given

    def is_plain(self) -> bool:
        """Return whether the command should be in front from its start.

        In a pipeline it should not: in `lockfast run ... | less`, less reads its keys from the
        terminal. If the command reads from the terminal nevertheless, the kernel stops it, and
        lockfast then puts it in front.
        """
        with suppress(OSError):
            return self.in_front and os.isatty(0) and os.isatty(1)
        return False

    def give(self, group: int) -> None:
        """Put the command's group in front."""
        self._given = group
        self._put(group)

    def take(self) -> None:
        """Put lockfast's group in front again, unless a shell has taken the terminal meanwhile."""
        if self.given:
            self._put(self._own)
        self._given = 0

    def _front(self) -> int:
        if self._tty is None:
            return -1
        try:
            return os.tcgetpgrp(self._tty)
        except OSError:  # the terminal was hung up
            return -1

    def _put(self, group: int) -> None:
        if self._tty is not None:
            with quiet(), suppress(OSError):
                os.tcsetpgrp(self._tty, group)

    def __enter__(self) -> Self:
        """Return the terminal."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Put lockfast in front again, and close the terminal."""
        self.take()
        if self._tty is not None:
            os.close(self._tty)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the kernel from stopping this process when it uses the terminal from the background."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
