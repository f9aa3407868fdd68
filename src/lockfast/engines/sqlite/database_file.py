"""The database file: checks that it can hold locks, and notices when it is deleted or replaced.

Nothing here opens the file. A process that closes any descriptor of a file loses all its POSIX
locks on it, and SQLite would not notice that its own are gone.
"""

from __future__ import annotations

import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path

from lockfast.errors import EngineRefused

MOUNTS = Path("/proc/self/mountinfo")
LOCAL = frozenset(
    {
        "bcachefs",
        "btrfs",
        "ext2",
        "ext3",
        "ext4",
        "f2fs",
        "jfs",
        "nilfs2",
        "overlay",
        "ramfs",
        "reiserfs",
        "tmpfs",
        "xfs",
        "zfs",
    }
)
"""Filesystems of Linux whose locks and shared memory are known to work between all processes."""
_ESCAPE = re.compile(r"\\([0-7]{3})")

Identity = tuple[tuple[int, int], ...]
"""The device and inode of the database, its -wal file and its -shm file."""


class DatabaseFile:
    """The path of a database, and what is there."""

    def __init__(self, path: Path) -> None:
        """Take the absolute path. Nothing is checked yet."""
        self.path = path
        self._names = self._beside(path)

    def _beside(self, real: Path) -> tuple[str, str, str]:
        """Return the names of all three files. SQLite follows a symbolic link to the database, and
        keeps the other two beside its target.
        """
        return str(self.path), f"{real}-wal", f"{real}-shm"

    def identity(self) -> Identity | None:
        """Return the identity of the files at the path. None if one of them is missing.

        SQLite keeps all three for as long as a connection is open. If one of them is another file
        now, other processes no longer see what this connection writes.
        """
        try:
            stats = [Path(name).stat() for name in self._names]
        except OSError:
            return None
        return tuple((each.st_dev, each.st_ino) for each in stats)

    def main(self) -> tuple[int, int] | None:
        """Return the device and inode of the database alone. None if there is no file."""
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def create(self) -> None:
        """Create an empty file that other users can neither read nor write, unless there is one.

        SQLite would let everybody read it. A process that can open the file for reading can lock
        it, and keep all others from writing. SQLite gives the files beside it the same mode.

        `mknod` creates a file without opening it. If it fails, as it does on macOS, SQLite creates
        the file, or says why it cannot.
        """
        if sys.platform != "win32":
            with suppress(OSError):
                os.mknod(self.path.resolve(), stat.S_IFREG | 0o600)

    def check(self) -> None:
        """Raise `EngineRefused` if locks in this file would not exclude each other."""
        where = f"SQLite at {str(self.path)!r}"
        try:
            real = self.path.resolve()
            links = real.stat().st_nlink if real.is_file() else 1
        except (OSError, RuntimeError) as error:
            raise EngineRefused(f"{where}: the path cannot be followed: {error}") from error
        self._names = self._beside(real)
        if not real.parent.is_dir():
            raise EngineRefused(
                f"{where}: the folder does not exist, or may not be read. Create it: lockfast "
                "creates the file, but no folder"
            )
        if links > 1:
            raise EngineRefused(
                f"{where}: the file has {links} names (hard links). Processes that open it by "
                "different names would not see each other's locks. Remove the other names"
            )
        if sys.platform == "linux":
            _check_mount(real, where)

    def filesystem(self) -> str:
        """Return the type of the filesystem. "" if the system does not tell."""
        if sys.platform != "linux":
            return ""
        where = f"SQLite at {str(self.path)!r}"
        return _kind(_mounts(where), self.path.resolve(), where)


def _check_mount(real: Path, where: str) -> None:
    """Raise `EngineRefused` if the folder is not on a local filesystem, or the file is a mount.

    Two containers that mount the file alone have -wal and -shm files of their own, and would write
    to the database without seeing each other.
    """
    mounts = _mounts(where)
    if str(real) in (point for point, _ in mounts.values()):
        raise EngineRefused(
            f"{where}: the file is mounted by itself, without the files beside it that SQLite "
            "needs (-wal and -shm). Mount its folder instead"
        )
    kind = _kind(mounts, real, where)
    if kind not in LOCAL:
        raise EngineRefused(
            f"{where}: the folder is on a filesystem ({kind}) that is not known to be local. On a "
            "network filesystem, two hosts could both get a lock. Put the file on a local disk "
            f"({', '.join(sorted(LOCAL))}), or use an engine with a server for several hosts"
        )


def _kind(mounts: dict[str, tuple[str, str]], real: Path, where: str) -> str:
    """Return the type of the filesystem that the folder of a file is on."""
    return mounts.get(_mount_id(real.parent, where), ("", "unknown"))[1]


def _mounts(where: str) -> dict[str, tuple[str, str]]:
    """Return the mount point and the type of each mounted filesystem, by the id of the mount."""
    try:
        lines = MOUNTS.read_text("utf-8", "surrogateescape").splitlines()
    except OSError as error:
        raise EngineRefused(
            f"{where}: {MOUNTS} cannot be read, so it is unknown whether the folder is on a "
            f"network filesystem: {error}"
        ) from error
    found = {}
    for line in lines:  # 36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
        fields, _, rest = line.partition(" - ")
        id_, _, _, _, point, *_ = fields.split(" ")
        found[id_] = _ESCAPE.sub(lambda code: chr(int(code[1], 8)), point), rest.split(" ")[0]
    return found


def _mount_id(folder: Path, where: str) -> str:
    """Return the id of the mount that a folder is on. Its device is no help: btrfs has several."""
    try:
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
        try:
            lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii").splitlines()
        finally:
            os.close(descriptor)
    except OSError as error:
        raise EngineRefused(f"{where}: the folder cannot be read: {error}") from error
    return next((line.split()[1] for line in lines if line.startswith("mnt_id:")), "")
