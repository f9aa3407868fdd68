"""Exit codes as in sysexits.h, so that cron, systemd and scripts can tell failures apart."""

from __future__ import annotations

from enum import IntEnum

from lockfast.errors import (
    EngineRefused,
    EngineUnavailable,
    GuaranteeMissing,
    LeaseLost,
    LockfastError,
    NotAcquired,
    StaleToken,
)


class Misconfigured(LockfastError):
    """There is no URL, the URL or its file is invalid, or the engine's driver is not installed."""

    anchor = "misconfigured"


class Code(IntEnum):
    """The exit codes of lockfast itself. `run` and `elect` pass on the codes of their command."""

    DONE = 0
    USAGE = 64
    UNREACHABLE = 69
    INTERNAL = 70
    BUSY = 75
    LOST = 76
    CONFIGURATION = 78


CODES: dict[type[Exception], Code] = {
    NotAcquired: Code.BUSY,
    LeaseLost: Code.LOST,
    StaleToken: Code.LOST,
    EngineUnavailable: Code.UNREACHABLE,
    EngineRefused: Code.CONFIGURATION,
    GuaranteeMissing: Code.CONFIGURATION,
    Misconfigured: Code.CONFIGURATION,
    ValueError: Code.USAGE,
}
"""The exit code for each type of error. `code_of` uses the first entry that matches."""


def code_of(error: Exception) -> Code:
    """Return the exit code for an error; `Code.INTERNAL` if no entry of `CODES` matches."""
    for kind, code in CODES.items():
        if isinstance(error, kind):
            return code
    return Code.INTERNAL


def of_signal(number: int) -> int:
    """Return the exit code that shells use for a process that a signal has ended."""
    return 128 + number
