"""On SQLite: our own statements by sqlite3 alone, and flock, which has no queue and no lease."""

from __future__ import annotations

import fcntl
import itertools
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from benchmarks.against import Against
from benchmarks.duel import duel
from benchmarks.rounds import Work
from lockfast.engines.sqlite import claims, queue_row, standing
from lockfast.engines.sqlite.connection import connected
from lockfast.engines.sqlite.database_file import DatabaseFile

HOST = "SELECT seen, last FROM host"
NOTE = "UPDATE host SET seen = ?, last = ?"
NAME, PAYLOAD = b"bare", b"p" * 120


class Folder(NamedTuple):
    """A folder with a database, in place of a server."""

    path: Path

    @property
    def url(self) -> str:
        """What a user passes to `lockfast.connect`."""
        return f"sqlite:///{self.path}/locks.db"


@contextmanager
def start() -> Iterator[Folder]:
    with tempfile.TemporaryDirectory() as folder:
        yield Folder(Path(folder))


@contextmanager
def pairs(folder: Folder) -> Iterator[dict[str, Work]]:
    database = DatabaseFile(folder.path / "bare.db")
    connection, _ = connected(database)
    with closing(connection) as bare, (folder.path / "flock").open("wb") as file:
        yield {"bare": _bare(bare), "flock": _flock(file.fileno())}


def _bare(connection: sqlite3.Connection) -> Work:
    """The floor: the statements that a free lock takes, in two transactions, with nothing else."""
    run, numbers = connection.execute, itertools.count(1)

    def work(count: int) -> None:
        for _ in range(count):
            number = next(numbers)
            id_ = f"{number:032x}"
            run("BEGIN IMMEDIATE")
            run(HOST).fetchone()
            run(claims.TOMBS, (id_,)).fetchone()
            if run(queue_row.FIND, (NAME,)).fetchone() is not None:
                raise AssertionError("the bare claim was not alone")
            sizes = (number, 0, 1, 1, 30_000_000, 10_000_000, 2**52, 1)
            run(claims.INSERT, (id_, NAME, *sizes, PAYLOAD))
            run(queue_row.SAVE, (NAME, 1, 1, 1, 0, 1, 1))
            run(NOTE, (number, number))
            run("COMMIT")
            run("BEGIN IMMEDIATE")
            run(HOST).fetchone()
            run(queue_row.FIND, (NAME,)).fetchone()
            run(standing.MINE, (id_,)).fetchone()
            run("DELETE FROM claim WHERE id = ?", (id_,))
            run("DELETE FROM queue WHERE name = ?", (NAME,))
            run("COMMIT")

    return work


def _flock(descriptor: int) -> Work:
    def work(count: int) -> None:
        for _ in range(count):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    return work


def _duel(pipe: Connection, _side: int, url: str) -> None:
    descriptor = os.open(f"{url.removeprefix('sqlite:///')}.flock", os.O_RDWR | os.O_CREAT)
    duel(
        pipe,
        lambda: fcntl.flock(descriptor, fcntl.LOCK_EX),
        lambda _: fcntl.flock(descriptor, fcntl.LOCK_UN),
    )


AGAINST = Against(
    start=start,
    pairs=pairs,
    locks={"flock": _duel},
    members=lambda _: (),  # there is no server
)
