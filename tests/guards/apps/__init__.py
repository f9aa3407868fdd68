"""Applications behind the HTTP guard, for servers that the tests start.

`/bare/KEY` is guarded by nothing, `/kept/KEY` by the marks of the middleware, `/own/KEY` by a guard
that the handler runs itself. `PUT ...?park` waits in its handler for `POST /go`, and `GET /parked`
counts those.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from lockfast.guards.files import FileGuard, MarkFolder
from lockfast.guards.http import Door
from lockfast.guards.mark import Shown

values: dict[str, bytes] = {}


def under(prefix: str) -> Callable[[str, str], str | None]:
    """Name the lock of a path by its last part."""
    return lambda _, path: path.rpartition("/")[2] if path.startswith(prefix) else None


def kept() -> Door:
    """Make the door that checks: with marks on the disk, or in memory."""
    folder = os.environ.get("MARKS")
    marks = MarkFolder(folder) if folder else {}
    return Door(under("/kept/"), marks=marks, patience=float(os.environ.get("PATIENCE", "10")))


def own() -> Door:
    """Make the door that leaves the check to the handler."""
    return Door(under("/own/"), marks=None)


def write(path: str, body: bytes, at: Shown | None) -> None:
    """Handle a PUT."""
    if body == b"fail":
        raise RuntimeError("as a handler does that has a mistake")
    if path.startswith("/own/"):
        assert at is not None
        FileGuard(_file(path)).write(at, body)
    else:
        values[path] = body


def read(path: str, at: Shown | None) -> bytes:
    """Handle a GET."""
    if path.startswith("/own/"):
        if at is not None:
            FileGuard(_file(path)).seal(at)
        return _file(path).read_bytes()
    return values.get(path, b"")


def _file(path: str) -> Path:
    return Path(os.environ["DATA"]) / path.rpartition("/")[2]
