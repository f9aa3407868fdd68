"""The command line as a process of its own, seen from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers import wait_until

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0


def argv_of(url: str | None, *args: str) -> list[str]:
    """Make the command line."""
    chosen = [] if url is None else ["--url", url]
    return [sys.executable, "-m", "lockfast.cli", *chosen, *args]


class Program:
    """`lockfast ARGS`. Leaving `with` kills it, and its watchdog does the rest."""

    def __init__(self, url: str | None, *args: str) -> None:
        self._stdout = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the program
        self._stderr = tempfile.TemporaryFile("w+")  # noqa: SIM115  # closed with the program
        self.process = subprocess.Popen(
            argv_of(url, *args),
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=self._stdout,
            stderr=self._stderr,
            start_new_session=True,
        )

    def wait(self) -> int:
        """Wait for its end, and give its exit code."""
        return self.process.wait(PATIENCE)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, to it alone."""
        os.kill(self.process.pid, number)

    def says(self, words: str) -> None:
        """Wait until it has said that, on either stream."""
        wait_until(lambda: words in self.stdout + self.stderr, f"it says {words!r}", PATIENCE)

    @property
    def stdout(self) -> str:
        """What it, or its command, has written."""
        return _read(self._stdout.fileno())

    @property
    def stderr(self) -> str:
        """What it has said to people."""
        return _read(self._stderr.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is not None:
            error.add_note(f"stdout: {self.stdout}\nstderr: {self.stderr}")
        self.process.kill()
        self.process.wait()
        self._stdout.close()
        self._stderr.close()


def _read(descriptor: int) -> str:
    # Not by the file's own position: the program writes at the same one.
    return os.pread(descriptor, 1_000_000, 0).decode()


def run(url: str, *args: str) -> tuple[int, str, str]:
    """Run it to its end; give the exit code and what it wrote."""
    with Program(url, *args) as program:
        return program.wait(), program.stdout, program.stderr
