"""Marks in files: each is written whole, by rename, and is on the disk before anybody goes on."""

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
    """Read a mark. One that cannot be read closes the door: it may be a high one."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    try:
        said = json.loads(text)
        mark, owner = Mark(int(said["token"]), said["id"]), said["name"]
    except Exception as error:  # brackets in brackets are a RecursionError
        raise ValueError(f"{path} is not a mark of ours: nothing was written") from error
    if owner != name:
        raise ValueError(
            f"{path} is of the lock {owner!r}, not {name!r}: tokens of two locks do not compare"
        )
    return mark


def keep(path: Path, name: str, mark: Mark) -> None:
    """Write a mark, durably."""
    said = {"name": name, "token": str(mark.token), "id": mark.id}
    with prepared(path, json.dumps(said).encode(), rights(path.parent)) as ready:
        install(ready, path)


@contextmanager
def prepared(path: Path, data: bytes, mode: int) -> Iterator[Path]:
    """Write a file beside `path`, to the disk; it is removed at the end if it is still there.

    It gets its mode when it is complete. Until then nobody else can open it: the content of a file
    that is secret would else stand in one that everybody may read.
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
    """Return the mode of marks and locks in a folder: for those who may write there, nobody else.

    Whoever can only read a file could still take a flock on it, and keep every writer out.
    """
    others = folder.stat().st_mode
    return PRIVATE | (0o060 if others & 0o020 else 0) | (0o006 if others & 0o002 else 0)


def open_lock(path: Path) -> int:
    """Open the file for a flock; give its descriptor. One that older versions made is closed to
    others here.
    """
    mode = rights(path.parent)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    descriptor = os.open(path, flags, PRIVATE)
    found = os.fstat(descriptor)
    if found.st_uid == os.geteuid() and found.st_mode & 0o777 != mode:
        os.fchmod(descriptor, mode)
    return descriptor


def usual(folder: Path) -> int:
    """Return the mode that a new file gets in a folder: asked of an empty one, since reading the
    umask means to change it, for all threads.
    """
    probe = folder / f".{secrets.token_hex(8)}.lockfast"
    descriptor = os.open(probe, NEW, 0o666)
    try:
        return os.fstat(descriptor).st_mode & 0o7777
    finally:
        os.close(descriptor)
        probe.unlink()


def install(ready: Path, path: Path) -> None:
    """Rename a file that is on the disk, and put the renaming there too."""
    ready.replace(path)
    settle(path.parent)


def settle(folder: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_closing: list[weakref.finalize[[int], MarkFolder]] = []


def _leave_to_parent() -> None:
    """Close the descriptors of the parent's folders in a forked child. With them it would keep the
    flocks for as long as it lives, and a service that is started again would find them taken.
    """
    for close in _closing:
        close()


os.register_at_fork(after_in_child=_leave_to_parent)


class MarkFolder(MutableMapping[str, Mark]):
    """Marks by name, a file each. For one process at a time, and it sees to that."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Make the folder, if it is not there, and take it."""
        self._folder = Path(folder)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._process = os.getpid()
        descriptor = open_lock(self._folder / "lock")
        self.close = weakref.finalize(self, os.close, descriptor)
        """Leave the folder to the next process; the end of this one does it too."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise self._shared() from None
        _closing[:] = [*(each for each in _closing if each.alive), self.close]

    def _shared(self) -> RuntimeError:
        return RuntimeError(
            f"{self._folder} is in use by another process. Marks there are right for one process "
            "that serves the resource: with several, run a guard in the handler's transaction."
        )

    def _path(self, name: str) -> Path:
        if os.getpid() != self._process:  # a server that forks its workers
            raise self._shared()
        # A name has slashes, NULs and 512 bytes; its digest has none of them.
        return self._folder / f"{sha256(name.encode()).hexdigest()}.mark"

    def __getitem__(self, name: str) -> Mark:
        """Read a mark."""
        mark = read(self._path(name), name)
        if mark is None:
            raise KeyError(name)
        return mark

    def __setitem__(self, name: str, mark: Mark) -> None:
        """Write a mark, durably."""
        keep(self._path(name), name, mark)

    def __delitem__(self, name: str) -> None:
        """Reopen a door: for a name that will never be locked again."""
        self._path(name).unlink()

    def __iter__(self) -> Iterator[str]:
        """Return the names."""
        for path in self._folder.glob("*.mark"):
            yield json.loads(path.read_text("utf-8"))["name"]

    def __len__(self) -> int:
        """Count the marks."""
        return sum(1 for _ in self)
