"""One connection to the database: opened, checked, and closed when its file is another one."""

from __future__ import annotations

import sqlite3
from importlib.resources import files

from lockfast.engines.sqlite.database_file import DatabaseFile
from lockfast.engines.sqlite.failures import Busy, failed
from lockfast.errors import EngineRefused

APPLICATION = 0x4C4F434B  # "LOCK": the application id in the header of our databases
LAYOUT = 1  # the number of the tables' layout, PRAGMA user_version
OPENINGS = 3  # a file that is replaced while it is opened is opened again, this often
SETTINGS = (
    # If the host loses power, the file stays intact. The last commits may be lost, but so are the
    # processes that they were for.
    "PRAGMA synchronous = NORMAL",
    # A reader that stays open lets the log grow. Afterwards it is cut to this size again.
    "PRAGMA journal_size_limit = 4194304",
    # The file may be from anybody: its triggers and views call no function that reaches outside.
    "PRAGMA trusted_schema = OFF",
)


def connected(file: DatabaseFile) -> tuple[sqlite3.Connection, tuple[int, int]]:
    """Open the database, create it if there is none, and check that it is ours.

    Returns the connection, and the device and inode of the file.

    Raises `Busy` if another process has it, and `EngineError` if it cannot be used.
    """
    file.check()
    file.create()
    for _ in range(OPENINGS):
        before = file.main()
        connection = _opened(file)
        # Only then is it certain that the file at the path is the one that was opened.
        if before is not None and file.main() == before:
            return connection, before
        connection.close()
    raise Busy


def _opened(file: DatabaseFile) -> sqlite3.Connection:
    try:
        connection = sqlite3.connect(
            file.path, timeout=0.0, isolation_level=None, check_same_thread=False
        )
    except sqlite3.Error as error:
        raise failed(error, file.path) from error
    try:
        _prepare(connection, file)
    except sqlite3.Error as error:
        connection.close()
        raise failed(error, file.path) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, file: DatabaseFile) -> None:
    connection.execute("BEGIN")  # one state of the file: another process may be creating it
    new = _is_new(connection, file)
    connection.execute("COMMIT")
    ((mode,),) = connection.execute("PRAGMA journal_mode = WAL")
    if mode != "wal":
        raise EngineRefused(
            f"SQLite at {str(file.path)!r}: the write-ahead log (WAL) does not work here"
        )
    for setting in SETTINGS:
        connection.execute(setting).fetchall()
    if new:
        connection.execute("BEGIN IMMEDIATE")
        if _is_new(connection, file):  # else another process has just created the tables
            _create(connection)
        connection.execute("COMMIT")


def _is_new(connection: sqlite3.Connection, file: DatabaseFile) -> bool:
    """Return whether the database is empty. Raise `EngineRefused` if it is not of this version."""
    ((application,),) = connection.execute("PRAGMA application_id")
    ((layout,),) = connection.execute("PRAGMA user_version")
    if application == APPLICATION:
        if layout != LAYOUT:
            raise EngineRefused(
                f"SQLite at {str(file.path)!r} has tables of layout {layout}, and this version of "
                f"lockfast reads layout {LAYOUT}: clients of another version use it. Nothing was "
                "changed. Upgrade them, or use another file"
            )
        return False
    ((things,),) = connection.execute("SELECT count(*) FROM sqlite_master")
    if application or layout or things:
        raise EngineRefused(
            f"SQLite at {str(file.path)!r} is the database of another application. Nothing was "
            "changed. lockfast keeps its locks in a file of its own: choose another path"
        )
    return True


def _create(connection: sqlite3.Connection) -> None:
    schema = (files(__package__) / "schema.sql").read_text(encoding="utf-8")
    # `executescript` would commit first, so the statements run one by one.
    lines = (line.partition("--")[0] for line in schema.splitlines())
    for statement in "\n".join(lines).split(";"):
        if statement.strip():
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {LAYOUT}")
