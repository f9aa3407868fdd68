"""The messages between lockfast and its watchdog: orders to the watchdog, and its reports.

They go through a pipe. If the pipe ends, the other process has ended.
"""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import NamedTuple, TypeAlias


class Start(NamedTuple):
    """An order: start the command, under a lease that is valid until `until`."""

    environment: dict[str, str]
    until: float
    in_front: bool
    """Whether to put the command in the foreground of the terminal."""


class Until(NamedTuple):
    """An order: the lease is now valid until this instant of `lockfast.runtime.base.now`.

    All processes of a machine share that clock.
    """

    until: float


class Forward(NamedTuple):
    """An order: send a signal to the command's process group."""

    number: int


class Kill(NamedTuple):
    """An order: the lease is lost, so kill the command and all its descendants."""


class Started(NamedTuple):
    """A report: the command runs, in the process group of this number."""

    group: int


class Stopped(NamedTuple):
    """A report: this signal has stopped the command."""

    number: int


class Ended(NamedTuple):
    """A report: no process of the command is left."""

    status: int
    """The wait status of the command, as `os.waitpid` returns it."""
    by_lease: bool
    """Whether the watchdog ended the command because the lease was not kept."""


Order = Start | Until | Forward | Kill
Report = Started | Stopped | Ended
OrderLine: TypeAlias = "Connection[Order, Report]"
ReportLine: TypeAlias = "Connection[Report, Order]"
