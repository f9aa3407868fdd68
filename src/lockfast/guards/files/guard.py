"""The guard of one file, for threads and asyncio: the check and the rename under one flock."""

from __future__ import annotations

import asyncio
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from lockfast.errors import StaleToken
from lockfast.guards.files import marks
from lockfast.guards.files.local import require_local
from lockfast.guards.mark import Holder, Shown, admit, refused, shown
from lockfast.runtime.drive import blocking

POLL = 0.005  # seconds between two looks at the flock: it can be waited for, but not with a timeout


class FileGuardCore:
    """What the guard does in threads and asyncio."""

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        """Nothing is opened.

        `timeout`: seconds to wait for another writer. One that was paused between its check and
        its rename holds the flock, and nobody can take it away.
        """
        self.path = Path(os.path.realpath(path))  # a rename would replace a symbolic link
        self._mark = self.path.with_name(f"{self.path.name}.mark")
        self._lock = self.path.with_name(f"{self.path.name}.lock")
        self._timeout = timeout

    async def _run(self, work: Callable[[], None]) -> None:
        work()

    async def _seal(self, lease: Holder) -> None:
        """Raise the mark. A new holder does this before its first read."""
        await self._change(lease, lambda: None)

    async def _write(self, lease: Holder, data: bytes) -> None:
        """Replace the file's content, or raise `StaleToken` and leave it as it was.

        A reader sees the old content or the new one, never a mixture. When this returns, the new
        one is on the disk.
        """
        at = shown(lease)
        await self._settle(lease, partial(self._write_now, at, data))

    async def _replace(self, lease: Holder, ready: str | os.PathLike[str]) -> None:
        """Move a file that was made beside it into its place: for content too big for memory."""
        await self._change(lease, partial(self._move, Path(ready)))

    async def _remove(self, lease: Holder) -> None:
        """Delete the file, if there is one. Its mark stays."""
        await self._change(lease, self._unlink)

    async def _change(self, lease: Holder, change: Callable[[], None]) -> None:
        await self._settle(lease, partial(self._apply, shown(lease), change))

    async def _settle(self, lease: Holder, work: Callable[[], None]) -> None:
        try:
            await self._run(partial(self._locally, work))
        except StaleToken as stale:
            raise refused(lease, stale.current) from None

    def _locally(self, work: Callable[[], None]) -> None:
        require_local(self.path.parent)  # before anything is written, also beside the file
        work()

    def _apply(self, at: Shown, change: Callable[[], None]) -> None:
        with self._locked():
            mark = marks.read(self._mark, at.name)
            raised = admit(mark, at)
            if raised != mark:
                # On the disk before the data is: a crash between the two is harmless.
                marks.keep(self._mark, at.name, raised)
            change()

    def _write_now(self, at: Shown, data: bytes) -> None:
        try:
            mode = self.path.stat().st_mode & 0o7777
        except FileNotFoundError:
            mode = marks.usual(self.path.parent)
        # Before the flock, which is held for less.
        with marks.prepared(self.path, data, mode) as ready:
            self._apply(at, lambda: marks.install(ready, self.path))

    def _move(self, ready: Path) -> None:
        with ready.open("rb") as stream:
            os.fsync(stream.fileno())
        marks.install(ready, self.path)

    def _unlink(self) -> None:
        self.path.unlink(missing_ok=True)
        marks.settle(self.path.parent)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # A file of its own, which is never replaced nor removed: a flock is on what was opened,
        # and two who opened two files of one name would both have it.
        descriptor = marks.open_lock(self._lock)
        try:
            end = time.monotonic() + self._timeout
            while not _taken(descriptor):
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"another process is writing {self.path} since {self._timeout:g} s: "
                        "perhaps it is paused. Nothing was written."
                    )
                time.sleep(POLL)
            yield
        finally:
            with suppress(OSError):  # a child that was forked meanwhile has the descriptor too
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class FileGuard(FileGuardCore):
    """Guards one file of a local filesystem. Its mark is beside it, in `NAME.mark`.

    On a network filesystem it raises `Unguarded`: there a flock can be lost without a word, and a
    rename seen late.
    """

    seal = blocking(FileGuardCore._seal)
    write = blocking(FileGuardCore._write)
    replace = blocking(FileGuardCore._replace)
    remove = blocking(FileGuardCore._remove)


class AsyncFileGuard(FileGuardCore):
    """Guards one file; the work is done in a thread. All else as `FileGuard`.

    A write that is cancelled while it runs may still be done.
    """

    seal = FileGuardCore._seal
    write = FileGuardCore._write
    replace = FileGuardCore._replace
    remove = FileGuardCore._remove

    async def _run(self, work: Callable[[], None]) -> None:
        await asyncio.to_thread(work)
