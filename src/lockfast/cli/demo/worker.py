"""One worker of the demo: a process that pays into an account, one step for each request.

A request is a line on standard input: a JSON list with the name of a `Worker` method and its
arguments. The worker answers each with one line on standard output.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import lockfast
from lockfast.cli.demo import memory_server
from lockfast.cli.render.stderr import keep_log_quiet
from lockfast.guards.files import FileGuard

AMOUNT = 10


class Worker:
    """The steps of a worker, and what it keeps between them: its lease and the balance it read."""

    def __init__(self, url: str) -> None:
        """Make a client. The worker holds no lock yet."""
        connect = (
            memory_server.connect if url.startswith(memory_server.SCHEME) else lockfast.connect
        )
        self._client = connect(url)
        self._lease: lockfast.Lease | None = None
        self._balance = 0

    @property
    def lease(self) -> lockfast.Lease:
        """The lease that the worker holds, or held last."""
        assert self._lease is not None  # noqa: S101  # for the type checker: it was taken first
        return self._lease

    def take(self, name: str, ttl: float) -> str:
        """Wait for the lock, and return its fencing token."""
        self._lease = self._client.lock(name, ttl=ttl, purpose=f"pays in {AMOUNT}").acquire()
        return str(self.lease.token)

    def read(self, path: str, guarded: bool) -> str:  # noqa: FBT001  # a value
        """Read the balance, and check that the lock is still held. Seal the file if `guarded`."""
        if guarded:
            FileGuard(path).seal(self.lease)
        self._balance = int(Path(path).read_text("ascii"))
        self.lease.ensure_held()
        return str(self._balance)

    def write(self, path: str, guarded: bool) -> str:  # noqa: FBT001  # a value
        """Write the new balance, through a guard if `guarded`, and return it."""
        data = str(self._balance + AMOUNT).encode()
        if guarded:
            FileGuard(path).write(self.lease, data)
        else:
            Path(path).write_bytes(data)
        return data.decode()

    def leave(self) -> str:
        """Release the lock."""
        self.lease.release()
        return ""

    def close(self) -> None:
        """Close the client."""
        self._client.close()


def main(url: str) -> None:
    """Answer requests until standard input ends."""
    worker = Worker(url)
    for line in sys.stdin:
        word, *args = json.loads(line)
        try:
            answer = [word, getattr(worker, word)(*args)]
        except lockfast.LockfastError as error:
            answer = [type(error).__name__, error.message]
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    worker.close()


if __name__ == "__main__":
    keep_log_quiet()
    main(sys.argv[1])
