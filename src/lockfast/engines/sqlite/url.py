"""The path of the database file, read from a URL as SQLAlchemy writes it."""

from __future__ import annotations

import os
from pathlib import Path

from lockfast.url import Target

HINT = "Write sqlite:///relative.db or sqlite:////absolute.db, with three slashes and then the path"
MEMORY = ":memory:"  # how sqlite3 and SQLAlchemy write a database in memory


def path_of(target: Target) -> Path:
    """Return the absolute path that a URL names. Raise `ValueError` if it names no file.

    A relative path is resolved now. A program may change its folder later, and the locks must stay
    in the same file.
    """
    path = target.path.removeprefix("/")
    if MEMORY in {path, *(host for host, _ in target.hosts)} or path.startswith("file:"):
        raise ValueError(
            "sqlite:// needs a file, which several processes can open. A database in memory "
            f"belongs to one connection: use memory:// for locks in one process. {HINT}"
        )
    if target.hosts or target.username is not None or target.password is not None:
        raise ValueError(f"sqlite:// is for a file on this host, and takes no host. {HINT}")
    if not path:
        raise ValueError(f"sqlite:// needs the path of a file. {HINT}")
    if "\0" in path:
        raise ValueError(f"the path of a database has no NUL character. {HINT}")
    try:
        os.fsencode(path)
    except UnicodeEncodeError as error:
        raise ValueError(f"the path {path!r} cannot be the name of a file: {error}") from error
    return Path(path).absolute()
