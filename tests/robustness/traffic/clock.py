"""The one clock of all histories: CLOCK_MONOTONIC as the kernel has it.

A worker's own clock may be moved by the clock shim, which stands before the C library. Asked by
name, the library itself answers.
"""

from __future__ import annotations

import ctypes
import time


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_gettime = ctypes.CDLL("libc.so.6", use_errno=True).clock_gettime


def now() -> float:
    """Tell the time, in seconds."""
    found = _Timespec()
    if _gettime(time.CLOCK_MONOTONIC, ctypes.byref(found)):
        raise OSError(ctypes.get_errno(), "clock_gettime")
    return float(found.seconds + found.nanoseconds / 1e9)
