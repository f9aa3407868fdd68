"""What a replica counts. `metrics_page` shows it to Prometheus, and `otel` to OpenTelemetry.

To count is an addition to a number of this process, and needs no package. No attribute has a value
that a client chooses, so the number of time series is bounded.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from lockfast.engines.remote.messages import Fault
from lockfast.errors import LockfastError
from lockfast.port import Standing
from lockfast.service.entry import Answer
from lockfast.service.replies import fault
from lockfast.service.tracing import Spans

R = TypeVar("R")
Labels = tuple[str, ...]
SECONDS = (
    *(0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    *(10.0, 30.0, 60.0),
)
"""Bounds of durations: those of `lock.acquire.duration`, see `lockfast.telemetry`."""
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0)
CLAIMING, REMOVING = ("claim", "renew"), ("resign", "break")
REQUESTS = (*CLAIMING, *REMOVING, "inspect", "record", "records", "guarantees", "sign")
CONNECTIONS, CLAIMS = "connection", "claim"
"""What an overloaded replica refuses."""
OTHER = "other"
"""The route of all requests over HTTP whose path is none of ours."""


class Gauge:
    """A number that is read when somebody asks."""

    def __init__(self, name: str, unit: str, text: str, read: Callable[[], int]) -> None:
        """Name a number."""
        self.name, self.unit, self.text, self.read = name, unit, text, read


class Counter:
    """Numbers that only grow, one for each set of values of some attributes."""

    def __init__(
        self, name: str, unit: str, text: str, keys: Labels = (), known: Sequence[Labels] = ((),)
    ) -> None:
        """Begin at 0. `known`: values that are shown also while their number is 0."""
        self.name, self.unit, self.text, self.keys = name, unit, text, keys
        self.counts: defaultdict[Labels, int] = defaultdict(int, dict.fromkeys(known, 0))


class Series:
    """How many values there were up to each bound, for one set of attributes."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        """Begin without values."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        """For each bound: the values above the bound before it. The last one is of the rest."""
        self.sum = 0.0


class Histogram:
    """A distribution of values, one for each set of values of some attributes."""

    def __init__(
        self, name: str, unit: str, text: str, keys: Labels, bounds: Sequence[float]
    ) -> None:
        """Begin without values."""
        self.name, self.unit, self.text, self.keys, self.bounds = name, unit, text, keys, bounds
        self.series: dict[Labels, Series] = {}
        self.also: Callable[[float, Labels], None] | None = None
        """Gets each value too. OpenTelemetry cannot read a distribution that others have made."""

    def put(self, value: float, labels: Labels) -> None:
        """Count a value."""
        series = self.series.get(labels)
        if series is None:
            series = self.series[labels] = Series(self.bounds)
        series.counts[bisect_left(self.bounds, value)] += 1
        series.sum += value
        if self.also is not None:
            self.also(value, labels)


class Figures:
    """The figures of one replica."""

    spans: Spans | None = None
    """Records spans of requests, if somebody traces."""

    def __init__(self, connections: Callable[[], int], overloaded: Callable[[], int] = int) -> None:
        """Begin at 0. `connections`: returns how many clients are connected. `overloaded`: returns
        1 while the replica is overloaded.
        """
        self.connections = Gauge(
            "lock.service.connections", "{connection}", "Clients that are connected.", connections
        )
        self.overloaded = Gauge(
            "lock.service.overloaded",
            "1",
            "1 while the replica refuses new clients and new claims, because it is overloaded.",
            overloaded,
        )
        self.accepted = Counter(
            "lock.service.accepted", "{connection}", "Connections of clients that were accepted."
        )
        self.refused = Counter(
            "lock.service.refused",
            "{connection}",
            "Connections that the replica refused or ended, by HTTP status or reason.",
            ("lock.reason",),
            [("401",), ("403",), ("404",), ("429",), ("503",), ("protocol",), ("slow",)],
        )
        self.requests = Counter(
            "lock.service.requests",
            "{request}",
            "Requests that were answered, by kind and by the first error in the answer.",
            ("lock.request", "error.type"),
            [(request, "") for request in REQUESTS],
        )
        self.claims = Counter(
            "lock.service.claims",
            "{claim}",
            "Claims in those requests, by what the engine answered.",
            ("lock.request", "lock.outcome"),
            [
                *((kind, each) for kind in CLAIMING for each in ("granted", "waiting")),
                *((kind, "removed") for kind in (*REMOVING, "depart")),
                *((kind, each) for kind in CLAIMING + REMOVING for each in ("absent", "failed")),
            ],
        )
        self.wakes = Counter(
            "lock.service.wakes", "{wake}", "Wakes that were passed on to clients."
        )
        self.drained = Counter(
            "lock.service.drained",
            "{connection}",
            "Clients that were asked to leave: those that left in time, and those cut off.",
            ("lock.outcome",),
            [("left",), ("cut",)],
        )
        self.denied = Counter(
            "lock.service.denied",
            "{claim}",
            "Claims and requests that were denied, by the right that was missing.",
            ("lock.reason",),
            [("claim",), ("inspect",), ("break",), ("limit",)],
        )
        self.shed = Counter(
            "lock.service.shed",
            "{request}",
            "Connections and claims that were refused because the replica was overloaded.",
            ("lock.shed",),
            [(CONNECTIONS,), (CLAIMS,)],
        )
        self.unlogged = Counter(
            "lock.service.audit.lost", "{line}", "Lines of the audit log that were not written."
        )
        self.calls = Histogram(
            "lock.service.engine.duration",
            "s",
            "Time that calls of the engine took, by kind and error.",
            ("lock.call", "error.type"),
            SECONDS,
        )
        self.sizes = Histogram(
            "lock.service.engine.claims",
            "{claim}",
            "Claims in one call of the engine.",
            ("lock.call",),
            SIZES,
        )
        self.http = Counter(
            "lock.service.http.requests",
            "{request}",
            "Requests over HTTP, by path and by the class of the status.",
            ("http.route", "lock.status"),
            (),
        )
        self.served = Histogram(
            "lock.service.http.duration",
            "s",
            "Time from a whole request over HTTP to its answer, without a wait for a lock.",
            ("http.route",),
            SECONDS,
        )
        self.gauges = (self.connections, self.overloaded)
        self.counters = (
            *(self.accepted, self.refused, self.requests, self.claims),
            *(self.wakes, self.drained, self.denied, self.shed, self.unlogged, self.http),
        )
        self.histograms = (self.calls, self.sizes, self.served)

    async def measured(self, call: str, size: int, answer: Awaitable[R]) -> R:
        """Await a call of the engine, and count it. `size`: how many claims it carries."""
        began = time.perf_counter()
        error = "cancelled"
        try:
            found = await answer
            error = ""
        except LockfastError as failure:
            error = fault(failure).kind
            raise
        except Exception:
            error = "internal"
            raise
        finally:
            self.calls.put(time.perf_counter() - began, (call, error))
            if size:
                self.sizes.put(size, (call,))
        return found

    def answered(self, request: str, faults: Sequence[Fault] = ()) -> None:
        """Count a request that was answered."""
        self.requests.counts[request, faults[0].kind if faults else ""] += 1

    def replied(self, route: str, status: int) -> None:
        """Count a request over HTTP. `status`: 0 if the client left before it had sent the body."""
        self.http.counts[route, f"{status // 100}xx" if status else "left"] += 1


def outcome(answer: Answer) -> str:
    """Return in one word what the engine answered about a claim."""
    if isinstance(answer, Standing):
        return "granted" if answer.granted else "waiting"
    if isinstance(answer, Exception):
        return "failed"
    return "removed" if answer else "absent"
