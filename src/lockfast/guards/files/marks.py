"""Marks stored in files. Each is replaced by a rename, and synced to the disk."""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import weakref
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from lockfast.guards.mark import Mark

PRIVATE = 0o600
NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


def read(path: Path, name: str) -> Mark | None:
    """Return the mark of a lock, or None if there is no such file.

    Raises `ValueError` if the mark is unreadable or belongs to another lock. An unreadable mark
    must not count as missing, since its token may be higher than that of the writer.
    """
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    try:
        said = json.loads(text)
        mark, owner = Mark(int(said["token"]), said["id"]), said["name"]
    except Exception as error:  # deeply nested brackets raise a RecursionError
        raise ValueError(f"{path} is not a mark of lockfast: nothing was written") from error
    if owner != name:
        raise ValueError(
            f"{path} belongs to the lock {owner!r}, not {name!r}: the tokens of different locks "
            "cannot be compared"
        )
    return mark


def keep(path: Path, name: str, mark: Mark) -> None:
    """Write a mark, and sync it to the disk."""
    said = {"name": name, "token": str(mark.token), "id": mark.id}
    with prepared(path, json.dumps(said).encode(), rights(path.parent)) as ready:
        install(ready, path)


@contextmanager
def prepared(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Write and sync a temporary file beside `path`. Remove it at the end unless it was renamed.

    It gets its mode when it is complete. Until then no other user can open it. Otherwise the
    content of a private file could be read by everybody for a moment.
    """
    ready = path.with_name(f".{secrets.token_hex(8)}.lockfast")
    try:
        with os.fdopen(os.open(ready, NEW, PRIVATE), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fchmod(stream.fileno(), mode)
            os.fsync(stream.fileno())
        yield ready
    finally:
        ready.unlink(missing_ok=True)


def rights(folder: Path) -> int:
    """Return the mode for marks and lock files: access for those who may write to the folder.

    Read access is enough to take a flock. So a user who may only read must not open the lock file,
    or that user could block every writer.
    """
    others = folder.stat().st_mode
    return PRIVATE | (0o060 if others & 0o020 else 0) | (0o006 if others & 0o002 else 0)


def open_lock(path: Path) -> int:
    """Open or create the file for a flock, and return its descriptor.

    Older versions created it with a wider mode, which is corrected here.
    """
    mode = rights(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, PRIVATE)
    found = os.fstat(descriptor)
    if found.st_uid == os.geteuid() and found.st_mode & 0o777 != mode:
        os.fchmod(descriptor, mode)
    return descriptor


def usual(folder: Path) -> int:
    """Return the mode that a new file gets in a folder.

    It creates an empty file to find out. Reading the umask would change it, for all threads.
    """
    probe = folder / f".{secrets.token_hex(8)}.lockfast"
    descriptor = os.open(probe, NEW, 0o666)
    try:
        return os.fstat(descriptor).st_mode & 0o7777
    finally:
        os.close(descriptor)
        probe.unlink()


def install(ready: Path, path: Path) -> None:
    """Rename a synced file to `path`, and sync the rename."""
    ready.replace(path)
    settle(path.parent)


def settle(folder: Path) -> None:
    """Sync a folder, so that its file names are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_closing: list[weakref.finalize[[int], MarkFolder]] = []


def _leave_to_parent() -> None:
    """Close the descriptors of the parent's mark folders in a forked child.

    The child would otherwise keep the flocks while it lives, and a restarted service could not use
    its folder.
    """
    for close in _closing:
        close()


os.register_at_fork(after_in_child=_leave_to_parent)


class MarkFolder(MutableMapping[str, Mark]):
    """A folder with one file per mark, for `Door(marks=...)`. One process at a time can use it.

    Args:
        folder: The path of the folder. It is created if needed.

    Raises:
        RuntimeError: Another process uses the folder.
        OSError: The folder cannot be created or opened.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Create the folder if needed, and lock it. Raise `RuntimeError` if it is in use."""
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process = os.getpid()
        descriptor = open_lock(self._folder / "lock")
        self.close = weakref.finalize(self, os.close, descriptor)
        """Unlock the folder for another process. The end of this process does that too."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise self._shared() from None
        _closing[:] = [*(each for each in _closing if each.alive), self.close]

    def _shared(self) -> RuntimeError:
        return RuntimeError(
            f"{self._folder} is in use by another process, and only one process can use it. If "
            "several processes serve the resource, run a guard in the handler's transaction."
        )

    def _path(self, name: str) -> Path:
        if os.getpid() != self._process:  # a server has forked its workers after this was created
            raise self._shared()
        # A name may contain slashes and NULs, and be too long for a file name. So use its digest.
        return self._folder / f"{sha256(name.encode()).hexdigest()}.mark"

    def __getitem__(self, name: str) -> Mark:
        """Return the mark of a lock."""
        mark = read(self._path(name), name)
        if mark is None:
            raise KeyError(name)
        return mark

    def __setitem__(self, name: str, mark: Mark) -> None:
        """Store the mark of a lock, and sync it to the disk."""
        keep(self._path(name), name, mark)

    def __delitem__(self, name: str) -> None:
        """Delete the mark of a lock. Only do this if the name will never be locked again."""
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the locks that have a mark."""
        for path in self._folder.glob("*.mark"):
            yield json.loads(path.read_text("utf-8"))["name"]

    def __len__(self) -> int:
        """Return the number of marks."""
        return sum(1 for _ in self)
