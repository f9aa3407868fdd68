"""Starts and controls a worker process: the demo's side of `lockfast.cli.demo.worker`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from types import TracebackType
from typing import Self

from lockfast.cli.demo.die_with_parent import leashed
from lockfast.cli.supervise.poll import ready

TICK = 0.1  # seconds between two calls of `tick` while the demo waits for a worker


class Actor:
    """A worker process: takes requests one by one, and is stopped and continued by signals."""

    def __init__(self, name: str, url: str, tick: Callable[[], object]) -> None:
        """Start the process. `tick` is called again and again while `hear` waits."""
        self.name = name
        self._tick = tick
        self._process = subprocess.Popen(  # noqa: S603  # a module of ours
            leashed(sys.executable, "-m", "lockfast.cli.demo.worker", url),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            process_group=0,  # so that Ctrl-C reaches only the demo
        )

    @property
    def pid(self) -> int:
        """The process id of the worker."""
        return self._process.pid

    def ask(self, word: str, *args: object) -> None:
        """Send a request, and do not wait for the answer."""
        assert self._process.stdin is not None  # noqa: S101  # for the type checker
        self._process.stdin.write(json.dumps([word, *args]) + "\n")
        self._process.stdin.flush()

    def hear(self) -> tuple[str, str]:
        """Wait for the answer: the request's name and result, or an error's name and message."""
        assert self._process.stdout is not None  # noqa: S101  # for the type checker
        while not ready([self._process.stdout.fileno()], TICK):
            self._tick()
        line = self._process.stdout.readline()
        if not line:
            raise ValueError(f"worker {self.name} has ended")
        word, said = json.loads(line)
        return word, said

    def call(self, word: str, *args: object) -> tuple[str, str]:
        """Send a request and wait for the answer."""
        self.ask(word, *args)
        return self.hear()

    def stop(self) -> None:
        """Send SIGSTOP."""
        os.kill(self.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        """Send SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        """Return the actor, which runs already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Kill the process, even if it is stopped."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
