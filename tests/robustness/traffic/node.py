"""A worker that runs the client in TypeScript. It writes the same records as the others."""

from __future__ import annotations

from pathlib import Path

from tests.robustness.traffic.process import ROOT, Task, Worker
from tests.servers.clock import ServerClock
from tests.servers.process import Home, program, run

CLIENT = ROOT / "clients" / "typescript"
WORKLOADS = ("lock", "queue", "held")
"""Those of the others that it has too."""


def build() -> None:
    """Compile the client and its worker."""
    npm = program("npm"), "--prefix", str(CLIENT)
    run(*npm, "ci")
    run(*npm, "run", "build")


class NodeWorker(Worker):
    """One process of Node."""

    def __init__(self, number: int, task: Task, folder: Path, *, home: Home | None = None) -> None:
        """Begin without a process."""
        super().__init__(number, "node", task, folder, home=home)
        # A clock to be moved, and no shim: the client takes a wall clock that was set ahead for the
        # end of a suspend, and loses its leases early, as its page says.
        self.env["LOCKFAST_CLOCK"] = ServerClock().env["LOCKFAST_CLOCK"]

    def argv(self) -> list[str]:
        """Tell the command line."""
        task = self.task
        return [
            *(program("node"), str(CLIENT / "dist" / "test" / "worker.js"), "--name", self.client),
            *("--url", task.url, "--workloads", ",".join(WORKLOADS), "--hands", str(task.hands)),
            *("--ttl", str(task.ttl), "--seed", str(task.seed), "--history", str(self.history)),
        ]
