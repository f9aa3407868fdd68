"""A process that holds a lock, for tests that pause, interrupt or kill it.

`python -m tests.traps.holder URL NAME TTL [--aio]` acquires, writes `held TOKEN` (or `interrupted`
after Ctrl-C), and then answers each line on its standard input with one line.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import lockfast
from lockfast import LeaseLost, aio
from lockfast.primitives.lease import LeaseCore
from tests.servers import wait_until

_ROOT = Path(__file__).parents[2]


class Holder:
    """The test's side of it."""

    def __init__(self, url: str, name: str, ttl: float, *, aio: bool = False) -> None:
        """Start it; `line()` tells when it holds the lock."""
        argv = [sys.executable, "-m", "tests.traps.holder", url, name, str(ttl)]
        self._process = subprocess.Popen(
            [*argv, "--aio"] if aio else argv,
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def line(self) -> str:
        """Read what it says next."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def ask(self, command: str) -> str:
        """Have a command obeyed: state, loss, ensure, told, fork, release."""
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        return self.line()

    def holds(self) -> int:
        """Wait until it holds the lock, and give its token."""
        word, _, token = self.line().partition(" ")
        assert word == "held"
        return int(token)

    def interrupt(self) -> None:
        """Press Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

    def pause(self) -> None:
        """Stop it where it is. Returns once it stands still."""
        self._process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{self._process.pid}/stat")
        wait_until(
            lambda: stat.read_text(encoding="ascii").rpartition(")")[2].split()[0] == "T",
            "the holder is paused",
        )

    def resume(self) -> None:
        """Let it go on."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it at once, as a crash does."""
        self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()


class Told:
    """Counts the calls of on_lost."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def say(line: object) -> None:
    """Write a line to the test."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def answer(lease: LeaseCore, told: Told, command: str) -> str:
    """Obey a command that needs no I/O."""
    if command == "state":
        return lease.state.name
    if command == "loss":
        return lease.loss.name if lease.loss else "none"
    if command == "fork":
        if not os.fork():
            # Until the test closes the pipe, at its end. The child must not read from it: a byte
            # of the parent's next command would be lost.
            end = select.poll()
            end.register(0, 0)
            end.poll()
            os._exit(0)
        return "forked"
    if command == "told":
        return str(told.times)
    if command == "ensure":
        try:
            lease.ensure_held()
        except LeaseLost as error:
            return error.reason.name
        return "held"
    raise ValueError(command)


def in_threads(url: str, name: str, ttl: float) -> None:
    """Hold a lock with the blocking client."""
    told = Told()
    with lockfast.connect(url) as client:
        lease = None
        try:
            lease = client.lock(name, ttl=ttl).acquire()
            lease.on_lost(told)
            say(f"held {lease.token}")
        except KeyboardInterrupt:
            say("interrupted")
        for line in sys.stdin:
            command = line.strip()
            assert lease is not None
            if command != "release":
                say(answer(lease, told, command))
                continue
            try:
                lease.release()
                say("released")
            except LeaseLost as error:
                say(error.reason.name)


async def in_loop(url: str, name: str, ttl: float) -> None:
    """Hold a lock with the asyncio client."""
    told = Told()
    loop = asyncio.get_running_loop()
    async with aio.connect(url) as client:
        lease = None
        try:
            lease = await client.lock(name, ttl=ttl).acquire()
            lease.on_lost(told)
            say(f"held {lease.token}")
        except asyncio.CancelledError:  # that is how asyncio.run passes Ctrl-C on
            say("interrupted")
        while command := (await loop.run_in_executor(None, sys.stdin.readline)).strip():
            assert lease is not None
            if command != "release":
                say(answer(lease, told, command))
                continue
            try:
                await lease.release()
                say("released")
            except LeaseLost as error:
                say(error.reason.name)


def main() -> None:
    """Read the arguments, and hold."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("name")
    parser.add_argument("ttl", type=float)
    parser.add_argument("--aio", action="store_true")
    said = parser.parse_args()
    if said.aio:
        asyncio.run(in_loop(said.url, said.name, said.ttl))
    else:
        in_threads(said.url, said.name, said.ttl)


if __name__ == "__main__":
    main()
