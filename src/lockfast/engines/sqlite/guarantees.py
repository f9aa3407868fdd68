"""Derives what locks in a SQLite database promise from where its file is."""

from __future__ import annotations

import sqlite3
import stat
import sys

from lockfast.engines.sqlite.database_file import DatabaseFile
from lockfast.guarantees import Finding, Guarantees, Level

PROMISE = (
    "on one host alone, no grant is forgotten while the host runs, whichever process crashes; if "
    "the host stops, all holders stop with it; tokens stay unique and in order unless the file is "
    "lost and the host's clock goes back"
)


def guarantees(file: DatabaseFile) -> Guarantees:
    """Return the guarantees. The settings that they depend on are made by the engine itself."""
    return Guarantees(
        f"SQLite {sqlite3.sqlite_version}, on this host",
        Level.FENCED,
        PROMISE,
        (*_filesystem(file), *_rights(file)),
    )


def _filesystem(file: DatabaseFile) -> list[Finding]:
    kind = file.filesystem()
    if kind == "":
        return [
            Finding(
                f"filesystem = unknown on {sys.platform}",
                "on a network filesystem, two hosts could both get a lock",
                "make sure that the file is on a local disk",
            )
        ]
    if kind in {"ramfs", "tmpfs"}:
        return [
            Finding(
                f"filesystem = {kind}",
                "the file is lost when the host restarts, so that the order of tokens depends on "
                "the host's clock alone",
                "put the file on a disk",
            )
        ]
    return []


def _rights(file: DatabaseFile) -> list[Finding]:
    """Return what users can do that share no locks. The folder may keep them from the file."""
    real = file.path.resolve()
    mode = stat.S_IMODE(real.stat().st_mode)
    others = mode & (stat.S_IROTH | stat.S_IWOTH)
    if not others or not real.parent.stat().st_mode & stat.S_IXOTH:
        return []
    does = "break" if mode & stat.S_IWOTH else "block"
    return [
        Finding(
            f"mode = {mode:o}",
            f"every user of this host can {does} every lock",
            f"chmod o-rw {real}*",
        )
    ]
