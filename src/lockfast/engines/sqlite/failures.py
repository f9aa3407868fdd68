"""Translation of SQLite's errors: busy, unavailable, or refused, in words that say what to do."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from lockfast.errors import EngineError, EngineRefused, EngineUnavailable

BUSY = frozenset([sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL])
"""Another process or thread has the database now. Nothing was applied, and a later try succeeds."""
RIGHTS = (
    "Every user of the locks needs the right to read and write the file, the files beside it that "
    "end in -wal and -shm, and the folder"
)
WORDS = {
    sqlite3.SQLITE_CANTOPEN: f"it cannot be opened. The folder must exist. {RIGHTS}",
    sqlite3.SQLITE_READONLY: f"it can only be read. {RIGHTS}",
    sqlite3.SQLITE_PERM: f"a right is missing. {RIGHTS}",
    sqlite3.SQLITE_AUTH: f"a right is missing. {RIGHTS}",
    sqlite3.SQLITE_FULL: "the disk is full. Locks cannot be acquired, renewed or released until "
    "there is space",
    sqlite3.SQLITE_NOTADB: "it is not a SQLite database, or is encrypted. Choose another path",
    sqlite3.SQLITE_CORRUPT: "it is damaged. Stop all processes that use it, and then remove it "
    "together with the files beside it that end in -wal and -shm",
    sqlite3.SQLITE_CONSTRAINT: "its tables contradict each other, because another program has "
    "written to them. Stop all processes that use it, and then remove it",
    sqlite3.SQLITE_ERROR: "its tables are not as lockfast made them. Stop all processes that use "
    "it, and then remove it",
}


class Busy(Exception):  # never leaves an engine
    """Another process or thread is writing. Nothing has happened, and a later try may succeed."""


def code_of(error: sqlite3.Error) -> int:
    """Return SQLite's primary result code. 0 if Python's module itself raised the error."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def failed(error: sqlite3.Error, path: Path) -> EngineError | Busy:
    """Return the exception for an error of SQLite."""
    code = code_of(error)
    if code in BUSY:
        return Busy()
    if code in WORDS:
        return EngineRefused(f"SQLite at {str(path)!r}: {WORDS[code]} ({error})")
    # After an I/O error, nobody knows whether the transaction is in the file.
    return EngineUnavailable(f"SQLite at {str(path)!r}: {error}", sent=True)
