"""A shell in a real terminal: what is typed, and what is to be read there."""

from __future__ import annotations

import os
import subprocess
import tempfile
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.cli.run.program import PATIENCE, ROOT
from tests.servers import wait_until

CTRL_C, CTRL_Z = "\x03", "\x1a"


class Terminal:
    """A terminal with an interactive bash in it, or with another program. `with` ends them."""

    def __init__(self, *argv: str) -> None:
        self._master, slave = os.openpty()
        os.set_blocking(self._master, False)
        self._folder = tempfile.TemporaryDirectory(prefix="lockfast-terminal-")
        # -b: it tells of a job that was stopped at once, not only at its next prompt.
        shell = argv or ("bash", "--norc", "--noprofile", "-bi")
        self._process = subprocess.Popen(
            ["setsid", "--ctty", *shell],
            cwd=ROOT,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={
                **os.environ,
                "PS1": "$ ",
                "HISTFILE": "",
                "TERM": "dumb",
                "HOME": self._folder.name,
            },
        )
        os.close(slave)
        self._read = ""
        self._mark = 0

    def enter(self, keys: str) -> None:
        """Type; what is read from then on is what came after that."""
        self.screen()
        self._mark = len(self._read)
        os.write(self._master, keys.encode())

    def screen(self) -> str:
        """Read what was written since something was typed."""
        with suppress(BlockingIOError, OSError):  # EIO: nobody has it open any more
            while more := os.read(self._master, 65536):
                self._read += more.decode()
        return self._read[self._mark :]

    def shows(self, words: str) -> None:
        """Wait until that is to be read."""
        try:
            wait_until(lambda: words in self.screen(), f"it shows {words!r}", PATIENCE)
        except Exception as error:
            error.add_note(self._read)
            raise

    def ended(self) -> int:
        """Wait for the program's end."""
        wait_until(lambda: self._process.poll() is not None, "it ends", PATIENCE)
        return self._process.returncode

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._master)  # whoever is in front is told that the terminal was hung up
        self._process.kill()
        self._process.wait()
        self._folder.cleanup()
