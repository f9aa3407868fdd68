"""Interrupts code before a chosen bytecode, as a signal handler or a finalizer does by chance."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import lockfast
from lockfast.claims import phases


class Interruption:
    """Runs something before the bytecode of a given number, counted in some files alone."""

    def __init__(
        self, files: set[str], number: int, deed: Callable[[], object], *, raises: bool = False
    ) -> None:
        self._files = files
        self._raises = raises
        self._number = number
        self._deed = deed
        self._seen = 0
        self.struck = False
        self.error: BaseException | None = None

    def trace(self, frame: FrameType, event: str, _: object) -> Any:  # noqa: ANN401  # as settrace wants
        if frame.f_code.co_filename not in self._files:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self._seen += 1
            if self._seen == self._number and not self.struck:
                self.struck = True
                try:
                    self._deed()
                except BaseException as error:
                    if self._raises:
                        raise
                    self.error = error  # shown by the test
        return self.trace


def interrupted(
    files: set[str],
    number: int,
    work: Callable[[], object],
    deed: Callable[[], object],
    *,
    raises: bool = False,
) -> bool:
    """Run `work` with that interruption; False if it has fewer bytecodes.

    `raises`: what the interruption raises goes on in `work`, as KeyboardInterrupt does.
    """
    interruption = Interruption(files, number, deed, raises=raises)
    sys.settrace(interruption.trace)
    try:
        work()
    finally:
        sys.settrace(None)
    if interruption.error is not None:
        raise interruption.error
    return interruption.struck


def settled(client: lockfast.Client) -> bool:
    """Tell whether the table and the engine are as they were before anything was acquired."""
    table = client._session.table
    lanes = [each for lane in table._pulse._lanes.values() for each in lane]
    alive = [each for each in lanes if each.phase is not phases.ENDED]
    return not (table._by_id or table._owners or table._leaving or alive or client.inspect())
