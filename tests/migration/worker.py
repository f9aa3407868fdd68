"""Processes that run a program of a page, and stop in the middle of its work."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.servers import wait_until

LONG = 60.0
# The work of every program on the pages is one call of print.
PRINT = """
def print(*said):
    import sys
    sys.stdout.write(" ".join(map(str, ("works:", *said, "\\n"))))
    sys.stdout.flush()
    sys.stdin.readline()
"""


class Worker:
    """One process. It is in its work from `works()` until `finish()`."""

    def __init__(self, program: str, folder: Path, env: Mapping[str, str] | None = None) -> None:
        """Start it. Its output goes to files in the folder."""
        number = len(list(folder.glob("worker*.out")))
        self._out = folder / f"worker{number}.out"
        self._errors = folder / f"worker{number}.err"
        with self._out.open("w") as out, self._errors.open("w") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-W", "error", "-c", PRINT + program],
                cwd=folder,
                env={**os.environ, **(env or {})},
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=errors,
                text=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def works(self) -> bool:
        """Tell whether it has begun its work."""
        ended = self._process.poll()
        assert not ended, f"it failed:\n{self._errors.read_text('utf-8')}"
        return bool(self.said)

    @property
    def said(self) -> str:
        """What its work has printed."""
        return self._out.read_text("utf-8")

    def wait_works(self) -> None:
        """Wait until it works."""
        wait_until(self.works, "the worker works", LONG)

    def finish(self) -> None:
        """Let it finish its work, and wait until it has ended."""
        self._process.communicate("\n", timeout=LONG)
        assert self._process.returncode == 0, self._errors.read_text("utf-8")

    def skips(self) -> bool:
        """Wait until it has ended, and tell whether it did so without any work."""
        self._process.communicate(timeout=LONG)
        assert self._process.returncode == 0, self._errors.read_text("utf-8")
        return not self.said

    def fails(self) -> str:
        """Let it finish, wait until it has failed, and return what it wrote about it."""
        self._process.communicate("\n", timeout=LONG)
        assert self._process.returncode != 0
        return self._errors.read_text("utf-8")
