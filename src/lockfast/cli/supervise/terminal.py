"""The terminal: which process group it listens to."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self


class Terminal:
    """The controlling terminal, or none: then nothing here does anything.

    Only the group in front reads from it and gets its Ctrl-C. The command has a group of its own,
    so it must be put in front, and lockfast again when the command ends or is stopped.
    """

    def __init__(self) -> None:
        """Open it, if there is one."""
        self._own = os.getpgrp()
        self._given = 0
        try:
            self._tty: int | None = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        except OSError:
            self._tty = None

    @property
    def exists(self) -> bool:
        """Whether somebody may be sitting there."""
        return self._tty is not None

    @property
    def in_front(self) -> bool:
        """Whether lockfast's own group is in front."""
        return self._front() == self._own

    @property
    def given(self) -> bool:
        """Whether the command is in front."""
        return self._given != 0 and self._front() == self._given

    def is_plain(self) -> bool:
        """Return whether the command should be in front at once.

        In a pipeline it should not: `lockfast run ... | less` reads its keys from the terminal. A
        command that reads from it nevertheless is stopped by the kernel, and put in front then.
        """
        with suppress(OSError):
            return self.in_front and os.isatty(0) and os.isatty(1)
        return False

    def give(self, group: int) -> None:
        """Put the command in front."""
        self._given = group
        self._put(group)

    def take(self) -> None:
        """Put lockfast in front again, unless a shell has taken the terminal meanwhile."""
        if self.given:
            self._put(self._own)
        self._given = 0

    def _front(self) -> int:
        if self._tty is None:
            return -1
        try:
            return os.tcgetpgrp(self._tty)
        except OSError:  # it was hung up
            return -1

    def _put(self, group: int) -> None:
        if self._tty is not None:
            with quiet(), suppress(OSError):
                os.tcsetpgrp(self._tty, group)

    def __enter__(self) -> Self:
        """Use it."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Take it back, and close it."""
        self.take()
        if self._tty is not None:
            os.close(self._tty)


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the kernel from stopping us for touching the terminal from behind."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
