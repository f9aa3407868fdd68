"""Exit codes: those of sysexits, so that cron, systemd and scripts can tell failures apart."""

from __future__ import annotations

from enum import IntEnum

from lockfast.errors import (
    EngineRefused,
    EngineUnavailable,
    GuaranteeMissing,
    LeaseLost,
    NotAcquired,
    StaleToken,
)


class Misconfigured(Exception):
    """There is no engine at the URL that was given, or no URL, or no driver."""


class Code(IntEnum):
    """What an exit code of lockfast's own means. A command's own codes are passed on."""

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
"""The first that fits counts: `NotAcquired` is a `TimeoutError` too."""


def code_of(error: Exception) -> Code:
    """Find the exit code of an error."""
    for kind, code in CODES.items():
        if isinstance(error, kind):
            return code
    return Code.INTERNAL


def of_signal(number: int) -> int:
    """Tell the exit code that shells give to an end by a signal."""
    return 128 + number
