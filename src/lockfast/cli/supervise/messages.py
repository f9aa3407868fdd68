"""What lockfast and its watchdog say to each other. The end of the line is the end of the other."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import NamedTuple, TypeAlias


class Start(NamedTuple):
    """Start the command."""

    environment: dict[str, str]
    until: float
    in_front: bool
    """Whether it gets the terminal."""


class Until(NamedTuple):
    """The lease is good until then, by the clock that the whole machine has."""

    until: float


class Forward(NamedTuple):
    """Send a signal to the command's group."""

    number: int


class Kill(NamedTuple):
    """The lease is lost: leave nothing alive."""


class Started(NamedTuple):
    """The command runs, in a group of this number."""

    group: int


class Stopped(NamedTuple):
    """The command was stopped, by this signal."""

    number: int


class Ended(NamedTuple):
    """Nothing of the command is left."""

    status: int
    """As the kernel gives it."""
    by_lease: bool
    """Whether it was ended because the lease was not kept."""


Order = Start | Until | Forward | Kill
Report = Started | Stopped | Ended
OrderLine: TypeAlias = "Connection[Order, Report]"
ReportLine: TypeAlias = "Connection[Report, Order]"
