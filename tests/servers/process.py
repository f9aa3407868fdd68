"""A server process: started in a folder of its own, ended by its pid, paused and killed."""

import atexit
import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from tests.servers.guard import guard

_POLL = 0.01
_TAIL = 3000
# Below Linux's range of ephemeral ports, so that no outgoing connection takes the port of a
# server that is down for the moment and will come back on it.
_PORTS = range(20000, 32768)


class ServerError(Exception):
    """A server did not do what it was asked in time."""


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 10.0) -> None:
    """Poll the condition until it is true; raise ServerError naming what after the timeout."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(f"not within {timeout:g} s: {what}")
        time.sleep(_POLL)


def is_running(pid: int) -> bool:
    """Tell whether a process runs (or is paused).

    A zombie has ended. One whose parent was killed is in /proc until process 1 looks after it,
    which in a container may take seconds.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii")
    except (FileNotFoundError, ProcessLookupError):
        return False
    # The state follows the command's name, which stands in brackets and may hold spaces.
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def free_port() -> int:
    """Find a TCP port nobody listens on and no process has given away before that still runs."""
    while True:
        port = secrets.choice(_PORTS)
        # Bound until this process ends. The server binds its port a second later on a busy machine,
        # and another process of the tests would choose the same port meanwhile.
        taken = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe:
            try:
                taken.bind(f"\0lockfast-test-port-{port}")
                probe.bind(("127.0.0.1", port))
            except OSError:
                taken.close()
                continue
        taken.detach()
        return port


def program(name: str) -> str:
    """Find an installed program's path."""
    path = shutil.which(name)
    if path is None:
        raise ServerError(f"{name} is not installed")
    return path


def run(*argv: str) -> str:
    """Run a program to its end and return what it wrote; raise ServerError if it failed."""
    done = subprocess.run(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    if done.returncode != 0:
        raise ServerError(f"{' '.join(argv)} failed:\n{done.stdout[-_TAIL:]}")
    return done.stdout


class Home(Protocol):
    """Where a server runs, if not here: tests/robustness/hosts has them."""

    @property
    def address(self) -> str:
        """The address that it listens on."""

    def inside(self, argv: list[str]) -> list[str]:
        """Tell the command line that runs there, as a process of the same id."""


def spread(homes: "Sequence[Home] | None", servers: int) -> "Sequence[Home | None]":
    """Tell the home of each of so many servers: none has one, or each its own."""
    return [None] * servers if homes is None else homes[:servers]


def address_of(home: Home | None) -> str:
    """Tell the address that a server listens on."""
    return "127.0.0.1" if home is None else home.address


class Server(ABC):
    """One server process. `with` starts it, and closes it at the end."""

    def __init__(
        self, name: str, *, env: Mapping[str, str] | None = None, home: Home | None = None
    ) -> None:
        """Make the server's folder; the process comes with start(), at home if it has one."""
        self.name = name
        self.env = dict(env or {})
        self.home = home
        self.folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=guard().folder))
        self.log_path = self.folder / "log"
        self._process: subprocess.Popen[bytes] | None = None
        self._changing = threading.RLock()
        """Two faults at once may both end it, or both start it again."""

    @abstractmethod
    def argv(self) -> list[str]:
        """Tell the command line."""

    @abstractmethod
    def is_ready(self) -> bool:
        """Tell whether the server serves; an OSError says no."""

    @property
    def alive(self) -> bool:
        """Whether the process runs (or is paused)."""
        process = self._process
        return process is not None and process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process."""
        process = self._process
        if process is None:
            raise ServerError(f"{self.name} does not run")
        return process.pid

    @property
    def pids(self) -> list[int]:
        """The ids of all its processes, that one first."""
        return [self.pid]

    def log(self) -> str:
        """Tell the end of what the process wrote."""
        if not self.log_path.exists():
            return ""
        return self.log_path.read_bytes()[-_TAIL:].decode(errors="replace")

    def start(self, timeout: float = 10.0) -> Self:
        """Start the process and wait until it serves."""
        self.launch()
        try:
            wait_until(self._settled, f"{self.name} serves", timeout)
        except BaseException as error:
            self.kill()
            error.add_note(f"log of {self.name}:\n{self.log()}")
            raise
        return self

    def launch(self) -> None:
        """Start the process, unless it runs, and wait for nothing: some serve only together."""
        with self._changing:
            if self.alive:
                return
            self._reap()
            argv = self.argv() if self.home is None else self.home.inside(self.argv())
            with self.log_path.open("ab") as log:
                # A group of its own: Ctrl-C at the tests must not end a server under a test.
                self._process = subprocess.Popen(
                    argv,
                    cwd=self.folder,
                    env={**os.environ, **self.env},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            guard().watch(self._process.pid)
            _live.add(self)

    def stop(self, timeout: float = 5.0) -> None:
        """End the process in good order, or by force when that takes too long."""
        process = self._process
        if process is not None and self.alive:
            # A paused process would not see the SIGTERM.
            process.send_signal(signal.SIGCONT)
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout)
        self.kill()

    def kill(self) -> None:
        """End the process at once, as a crash does."""
        with self._changing:
            if self.alive:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
            self._reap()

    def pause(self) -> None:
        """Stop the process where it is; its sockets stay open. Returns once it stands still."""
        os.kill(self.pid, signal.SIGSTOP)
        # A small t: it stands still, and a tracer looks on.
        wait_until(lambda: self._state() in {"T", "t"}, f"{self.name} is paused")

    def resume(self) -> None:
        """Let a paused process go on."""
        os.kill(self.pid, signal.SIGCONT)

    def close(self) -> None:
        """End the process and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        """Start."""
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()

    def _settled(self) -> bool:
        if not self.alive:
            raise ServerError(f"{self.name} ended while starting")
        try:
            return self.is_ready()
        except OSError:
            return False

    def _state(self) -> str:
        # The state follows the command's name, which stands in brackets and may hold spaces.
        stat = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii")
        return stat.rpartition(")")[2].split()[0]

    def _reap(self) -> None:
        if self._process is not None:
            self._process.wait()
            guard().forget(self._process.pid)
            self._process = None
        _live.discard(self)


_live: set[Server] = set()


def _kill_all() -> None:
    for server in list(_live):
        server.kill()


# Registered after the guard's own: atexit runs the last one first. A forked child that runs its
# exit handlers must not end its parent's servers.
atexit.register(_kill_all)
os.register_at_fork(after_in_child=_live.clear)
