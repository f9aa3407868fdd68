"""A worker as the harness sees it: a process that is paused, killed and started again."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.previous.version import Version
from tests.servers.process import Home, Server

ROOT = Path(__file__).resolve().parents[3]
MUTANT = "LOCKFAST_MUTANT"
"""Names the mutants of our own code that a worker runs with: see tests/robustness/controls."""


@dataclass(frozen=True)
class Task:
    """What a worker is to do."""

    url: str
    register: str
    workloads: Sequence[str]
    ttl: float
    seed: int
    hands: int = 8


class Worker(Server):
    """One worker. Each of its lives is a client of its own, with a file of its own."""

    def __init__(  # noqa: PLR0913 - what makes one worker another
        self,
        number: int,
        mode: str,
        task: Task,
        folder: Path,
        *,
        env: Mapping[str, str] | None = None,
        home: Home | None = None,
        version: Version | None = None,
    ) -> None:
        """`version`: the one that it runs, if not this one."""
        root = version.unpacked() if version else ROOT
        path = f"{root / 'src'}:{root}"
        super().__init__(f"worker{number}", env={"PYTHONPATH": path, **(env or {})}, home=home)
        self._mode_option = version.mode if version else "--mode"
        self.mode = mode
        self.task = task
        self.life = 0
        self._histories = folder

    @property
    def client(self) -> str:
        """What this life is called in the history."""
        return f"{self.name}.{self.life}"

    @property
    def history(self) -> Path:
        """Where this life records what it does."""
        return self._histories / f"{self.client}.jsonl"

    def launch(self) -> None:
        """Begin a new life, unless there is one."""
        with self._changing:
            if not self.alive:
                self.life += 1
            super().launch()

    def argv(self) -> list[str]:
        """Tell the command line."""
        task = self.task
        module = f"tests.robustness.{'controls' if MUTANT in self.env else 'traffic'}.worker"
        return [
            *(sys.executable, "-m", module, "--name", self.client),
            *("--url", task.url, "--register", task.register),
            *("--workloads", ",".join(task.workloads), "--hands", str(task.hands)),
            *("--ttl", str(task.ttl), "--seed", str(task.seed)),
            *("--history", str(self.history), self._mode_option, self.mode),
        ]

    def is_ready(self) -> bool:
        """Tell whether it has begun to record."""
        return self.history.exists()

    def end(self, timeout: float) -> str:
        """Let it end in good order; tell what was wrong with how it ended, or nothing."""
        process = self._process
        if process is None:
            return f"{self.client} does not run"
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(timeout)
            return f"{self.client} ended with {code}: {self.log()[-500:]}" if code else ""
        return f"{self.client} did not end within {timeout:g} s"
