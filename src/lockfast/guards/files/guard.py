"""The file guard for threads and asyncio. It checks the mark and renames under one flock."""

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

POLL = 0.005  # seconds between two attempts to get the flock, which has no wait with a timeout


class FileGuardCore:
    """The shared part of the sync and async guards."""

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 10.0) -> None:
        """Take the path of the file. Nothing is opened."""
        self.path = Path(os.path.realpath(path))  # a rename would replace the link, not its target
        self._mark = self.path.with_name(f"{self.path.name}.mark")
        self._lock = self.path.with_name(f"{self.path.name}.lock")
        self._timeout = timeout

    async def _run(self, work: Callable[[], None]) -> None:
        work()

    async def _seal(self, lease: Holder) -> None:
        """Store the token, so that the guard rejects earlier holders from now on.

        Call it right after acquiring, before the first read.

        Args:
            lease: The lease, or what `parse` of the HTTP guard returned.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST, and nothing changes.
            Unguarded: The file is on a network filesystem.
            TimeoutError: Another process has been writing for the guard's `timeout`.
            ValueError: The mark is unreadable or of another lock.
            TypeError: The lease is a permit of a semaphore.
            OSError: The file, its mark or its folder cannot be read or written.
        """
        await self._change(lease, lambda: None)

    async def _write(self, lease: Holder, data: bytes) -> None:
        """Replace the file's content, or raise `StaleToken` and leave it as it was.

        A reader sees the old content or the new one, never a mixture. When this returns, the new
        content is on the disk.

        Args:
            lease: The lease, or what `parse` of the HTTP guard returned.
            data: The new content.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST, and nothing changes.
            Unguarded: The file is on a network filesystem.
            TimeoutError: Another process has been writing for the guard's `timeout`.
            ValueError: The mark is unreadable or of another lock.
            TypeError: The lease is a permit of a semaphore.
            OSError: The file, its mark or its folder cannot be read or written.
        """
        at = shown(lease)
        await self._settle(lease, partial(self._write_now, at, data))

    async def _replace(self, lease: Holder, ready: str | os.PathLike[str]) -> None:
        """Move the file `ready` into the place of the guarded file, or raise `StaleToken`.

        Use it for content that is too big for memory.

        Args:
            lease: The lease, or what `parse` of the HTTP guard returned.
            ready: The path of a complete file on the same filesystem.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST, and nothing changes.
            Unguarded: The file is on a network filesystem.
            TimeoutError: Another process has been writing for the guard's `timeout`.
            ValueError: The mark is unreadable or of another lock.
            TypeError: The lease is a permit of a semaphore.
            OSError: The file, its mark or its folder cannot be read or written.
        """
        await self._change(lease, partial(self._move, Path(ready)))

    async def _remove(self, lease: Holder) -> None:
        """Delete the file if it exists, or raise `StaleToken`. Its mark stays.

        Args:
            lease: The lease, or what `parse` of the HTTP guard returned.

        Raises:
            StaleToken: The guard has seen a higher token. The lease is LOST, and nothing changes.
            Unguarded: The file is on a network filesystem.
            TimeoutError: Another process has been writing for the guard's `timeout`.
            ValueError: The mark is unreadable or of another lock.
            TypeError: The lease is a permit of a semaphore.
            OSError: The file, its mark or its folder cannot be read or written.
        """
        await self._change(lease, self._unlink)

    async def _change(self, lease: Holder, change: Callable[[], None]) -> None:
        await self._settle(lease, partial(self._apply, shown(lease), change))

    async def _settle(self, lease: Holder, work: Callable[[], None]) -> None:
        try:
            await self._run(partial(self._locally, work))
        except StaleToken as stale:
            raise refused(lease, stale.current) from None

    def _locally(self, work: Callable[[], None]) -> None:
        require_local(self.path.parent)  # first: `work` writes other files beside this one
        work()

    def _apply(self, at: Shown, change: Callable[[], None]) -> None:
        with self._locked():
            mark = marks.read(self._mark, at.name)
            raised = admit(mark, at)
            if raised != mark:
                # The mark reaches the disk before the data, so a crash between the two is harmless.
                marks.keep(self._mark, at.name, raised)
            change()

    def _write_now(self, at: Shown, data: bytes) -> None:
        try:
            mode = self.path.stat().st_mode & 0o7777
        except FileNotFoundError:
            mode = marks.usual(self.path.parent)
        # Written before the flock is taken, so that the flock is held for a shorter time.
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
        # The flock is on a separate file that is never replaced or removed. A flock belongs to the
        # file that was opened. If that were replaced, two writers could each lock one of the two.
        descriptor = marks.open_lock(self._lock)
        try:
            end = time.monotonic() + self._timeout
            while not _taken(descriptor):
                if time.monotonic() > end:
                    raise TimeoutError(
                        f"another process has been writing to {self.path} for {self._timeout:g} "
                        "s, and may be paused. Nothing was written."
                    )
                time.sleep(POLL)
            yield
        finally:
            # Unlocked explicitly: a child that was forked meanwhile has the descriptor too, so that
            # closing it here would leave the flock held.
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            os.close(descriptor)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class FileGuard(FileGuardCore):
    """Rejects writes to one file by a process that has lost its lock.

    The mark is stored beside the file, in `NAME.mark`. On a network filesystem every method raises
    `Unguarded`, because a flock can be lost silently there, and other machines may see a rename
    late.

    Args:
        path: The path of the file. A symbolic link stands for the file that it points to.
        timeout: Seconds to wait for another writer. A writer that is paused between its check and
            its rename holds the flock, and no other process can take it away.

    Example:
        ::

            guard = FileGuard("report.txt")
            with client.lock("report", ttl=10) as lease:
                guard.seal(lease)
                guard.write(lease, b"the whole report")
    """

    seal = blocking(FileGuardCore._seal)
    write = blocking(FileGuardCore._write)
    replace = blocking(FileGuardCore._replace)
    remove = blocking(FileGuardCore._remove)


class AsyncFileGuard(FileGuardCore):
    """The same as `FileGuard`, for asyncio. The work is done in a thread.

    If a write is cancelled while it runs, it may still take effect.

    Args:
        path: The path of the file. A symbolic link stands for the file that it points to.
        timeout: Seconds to wait for another writer. See `FileGuard`.

    Example:
        ::

            guard = AsyncFileGuard("report.txt")
            async with client.lock("report", ttl=10) as lease:
                await guard.seal(lease)
                await guard.write(lease, b"the whole report")
    """

    seal = FileGuardCore._seal
    write = FileGuardCore._write
    replace = FileGuardCore._replace
    remove = FileGuardCore._remove

    async def _run(self, work: Callable[[], None]) -> None:
        await asyncio.to_thread(work)
