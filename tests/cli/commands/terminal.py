"""A terminal: a pseudo-terminal with a program in it, and an emulator that keeps its screen."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

import pyte

PATIENCE = 60.0
_CHUNK = 65536


class Terminal:
    """One program in a terminal of its own. `with` starts it, and ends it if it still runs."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        columns: int = 110,
        lines: int = 30,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._argv = list(argv)
        self._size = struct.pack("HHHH", lines, columns, 0, 0)
        self._env = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "", **(env or {})}
        for name in ("COLUMNS", "LINES", "NO_COLOR"):
            self._env.pop(name, None)
        self._master = -1
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The program's process."""
        assert self._process is not None
        return self._process.pid

    @property
    def text(self) -> str:
        """What is to be read on the screen."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def see(self, *words: str, without: Sequence[str] = (), timeout: float = PATIENCE) -> str:
        """Wait until the screen shows all of these words, and none of the others; give it."""

        def shown() -> bool:
            return all(word in self.text for word in words) and not any(
                word in self.text for word in without
            )

        self._until(shown, f"{words} on the screen", timeout)
        return self.text

    def press(self, keys: str) -> None:
        """Type."""
        os.write(self._master, keys.encode())

    def end(self, timeout: float = PATIENCE) -> int:
        """Wait for the program's end; give its exit code."""
        process = self._process
        assert process is not None
        self._until(lambda: process.poll() is not None, "the program ends", timeout)
        self._read(0.0)
        return int(process.returncode)

    def _until(self, condition: Callable[[], bool], what: str, timeout: float) -> None:
        end = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"not within {timeout:g} s: {what}. The screen:\n{self.text}")
            self._read(0.05)

    def _read(self, patience: float) -> None:
        while select.select([self._master], [], [], patience)[0]:
            try:
                data = os.read(self._master, _CHUNK)
            except OSError:  # EIO: nobody has the other end any more
                time.sleep(patience)
                return
            self._stream.feed(data)
            patience = 0.0

    def __enter__(self) -> Self:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, self._size)
        try:
            self._process = subprocess.Popen(
                # setsid: the terminal becomes the program's own, so that Ctrl-C reaches it.
                ["setsid", "--ctty", "--wait", *self._argv],
                stdin=slave,
                stdout=slave,
                stderr=slave,
                env=self._env,
            )
        finally:
            os.close(slave)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            self.press("\x03")
            try:
                self.end(10)
            except AssertionError:
                process.kill()
                process.wait()
        os.close(self._master)
