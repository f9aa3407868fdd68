"""The audit log: one JSON object a line, for what happens to locks and for what is denied.

A thread writes it, so that a slow disk does not stop locks. A line that cannot be written is
counted, and lost.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import stat
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime

log = logging.getLogger("lockfast")
STANDARD_OUTPUT = "-"
WAITING = 10_000  # lines that wait to be written
PIECE = 2**16  # bytes that are written at once to a file
LINE = 4_000  # bytes of a line: a pipe keeps up to 4,096 in one piece
LONGEST = 300  # characters of a text
SHORT = 64  # characters of the subject in a line that is too long
ENDING = 1.0  # seconds for the last lines
MODE = 0o640
Field = str | int | bool | None


class Audit:
    """An audit log. Its methods never raise and never wait, except `close`."""

    def __init__(self, path: str, lost: Callable[[int], None]) -> None:
        """Open nothing yet. `path`: "-" is standard output. `lost` is called with the number of
        lines that were not written, maybe in another thread.
        """
        self.path = path
        self._lost = lost
        self._failed = False
        """Whether the log says that lines are lost."""
        self._lines: queue.Queue[bytes | None] = queue.Queue(WAITING)
        self._thread: threading.Thread | None = None
        self._file: int | None = None
        self._reopening = False
        self._torn = False
        """Whether the last line was written only in part."""

    def write(self, event: str, **fields: Field) -> None:
        """Write a line soon. Empty fields are left out."""
        line = _line(event, fields)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="lockfast-audit", daemon=True)
            self._thread.start()
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self._fail(1, "it is not written as fast as lines come")

    def reopen(self) -> None:
        """Open the file again before the next line, because it was renamed."""
        self._reopening = True

    def close(self) -> None:
        """Write what waits, or give up after some seconds."""
        if self._thread is not None:
            try:
                self._lines.put(None, timeout=ENDING)
            except queue.Full:
                return
            self._thread.join(ENDING)
            self._thread = None

    def _run(self) -> None:
        ended = False
        while not ended:
            lines = [self._lines.get()]
            size = 0
            while lines[-1] is not None and size < PIECE:
                size += len(lines[-1])
                try:
                    lines.append(self._lines.get_nowait())
                except queue.Empty:
                    break
            ended = lines[-1] is None
            self._put([line for line in lines if line is not None])
        if self._file is not None and self.path != STANDARD_OUTPUT:
            os.close(self._file)
        self._file = None

    def _put(self, lines: list[bytes]) -> None:
        try:
            file = self._open()
            pieces = [b"".join(lines)] if stat.S_ISREG(os.fstat(file).st_mode) else lines
        except OSError as error:
            self._fail(len(lines), str(error.strerror))
            return
        for piece in pieces:
            # Several processes append to one file, so each piece has whole lines. After one that
            # was cut off, because the disk was full, the next one begins on a line of its own.
            whole = b"\n" + piece if self._torn else piece
            written = 0
            try:
                written = os.write(file, whole)
            except OSError as error:
                self._fail(piece.count(b"\n"), str(error.strerror))
            else:
                if written < len(whole):
                    self._fail(whole[written:].count(b"\n"), "the disk is full")
                self._torn = not whole[:written].endswith(b"\n")
                if not self._torn:
                    self._failed = False

    def _open(self) -> int:
        if self.path == STANDARD_OUTPUT:
            return 1
        if self._reopening and self._file is not None:
            os.close(self._file)
            self._file = None
        self._reopening = False
        if self._file is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
            self._file = os.open(self.path, flags, MODE)
        return self._file

    def _fail(self, count: int, why: str) -> None:
        self._lost(count)
        if not self._failed:
            self._failed = True
            log.error("lines of the audit log %r are lost: %s", self.path, why)


def _line(event: str, fields: dict[str, Field]) -> bytes:
    now = datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
    said: dict[str, Field] = {"time": now, "event": event}
    # A lock's name is never cut, because that would be the name of another lock.
    said |= {
        key: value[:LONGEST] if isinstance(value, str) and key != "lock" else value
        for key, value in fields.items()
        if value not in {None, ""}
    }
    line = json.dumps(said).encode()
    if len(line) >= LINE:  # characters that are escaped take more
        said.pop("reason", None)
        said["subject"] = str(said.get("subject", ""))[:SHORT]
        line = json.dumps(said).encode()
    return line + b"\n"


def unusable(path: str) -> str:
    """Return why a file cannot be the audit log, or an empty text. It changes nothing."""
    if path == STANDARD_OUTPUT:
        return ""
    folder = os.path.dirname(path) or "."  # noqa: PTH120  # only a text
    if os.path.isdir(path):  # noqa: PTH112
        return "it is a folder"
    if os.path.exists(path):  # noqa: PTH110
        return "" if os.access(path, os.W_OK) else "this user may not write it"
    if not os.path.isdir(folder):  # noqa: PTH112
        return f"there is no folder {folder!r}"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"this user may not write in {folder!r}"
