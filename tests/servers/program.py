"""A program that a user would start: a worker, a beat, a scheduler. Known by what it says."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tests.servers.process import Server

_ROOT = Path(__file__).parents[2]


class Program(Server):
    """`python -m ARGV`, with a folder of the user's on the path."""

    def __init__(
        self, argv: Sequence[str], home: Path, ready: str, env: Mapping[str, str] | None = None
    ) -> None:
        """`ready`: what it says once it works."""
        path = f"{home}:{_ROOT}"
        super().__init__(argv[0], env={"PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **(env or {})})
        self._argv = list(argv)
        self._ready = ready

    def argv(self) -> list[str]:
        """Tell the command line."""
        return [sys.executable, "-m", *self._argv]

    def is_ready(self) -> bool:
        """Tell whether it has said so."""
        return self.says(self._ready) > 0

    def says(self, pattern: str) -> int:
        """Tell how often it has said something, since it was started."""
        text = self.log_path.read_text("utf-8", errors="replace")
        return len(re.findall(pattern, text))

    def start(self, timeout: float = 60.0) -> Self:
        """Start it, with time to import what it needs on a machine that has others to run."""
        return super().start(timeout)

    def restart(self) -> None:
        """Start again, as if it had never said a word."""
        self.stop()
        self.log_path.unlink()
        self.start()
