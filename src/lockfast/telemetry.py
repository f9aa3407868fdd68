"""OpenTelemetry metrics and spans for all locks of a process, on every engine, sync and async.

`instrument()` adds a watcher to `claims.observer`. Held locks and waiters are counted from the
clients' tables of claims each time metrics are collected. This costs an acquisition nothing, and
the counts cannot drift away from the tables.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import ParamSpec

from opentelemetry import context, metrics, trace
from opentelemetry.metrics import MeterProvider, Observation
from opentelemetry.trace import SpanKind, StatusCode, TracerProvider

from lockfast.claims import observer
from lockfast.claims.claim import Claim
from lockfast.claims.observer import Watched
from lockfast.claims.phases import HELD, WAITING, Phase
from lockfast.claims.session import sessions
from lockfast.core.name_templates import Templates
from lockfast.engines import system
from lockfast.errors import Loss
from lockfast.port import Shape

log = logging.getLogger("lockfast")
P = ParamSpec("P")
About = dict[str, str | int]

LOSSES = {Loss.EXPIRED, Loss.UNREACHABLE, Loss.GONE, Loss.AT_MOST, Loss.FENCED}
# Bounds of the histograms. A free lock is granted within a fraction of a millisecond, and a
# contended one perhaps after a minute, so they must cover both.
STEPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
WAITS = (0.00025, 0.0005, *STEPS)
HOLDS = (*STEPS, 300.0, 1800.0)


_otel: Otel | None = None


def instrument(
    *,
    templates: Sequence[str] = (),
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
) -> None:
    """Export metrics and spans for all locks of this process, also of clients that exist already.

    A later call replaces an earlier one.

    Args:
        templates: Patterns of lock names, such as `"invoice:{number}"`. lockfast never exports the
            name of a lock, but the first template that matches it, or `"other"`. The template of a
            decorated function is known and need not be listed.
        meter_provider: Where metrics go. It defaults to OpenTelemetry's global provider.
        tracer_provider: Where spans go. It defaults to OpenTelemetry's global provider.

    Example:
        ::

            from lockfast import telemetry

            telemetry.instrument(templates=["invoice:{number}"])
            with client.lock("invoice:42", ttl=10):
                print("counted as invoice:{number}")
    """
    global _otel  # one for the process
    old, _otel = (
        _otel,
        Otel(
            Templates(templates),
            metrics.get_meter("lockfast", meter_provider=meter_provider),
            trace.get_tracer("lockfast", tracer_provider=tracer_provider),
        ),
    )
    observer.replace(old, _otel)


def uninstrument() -> None:
    """Stop exporting metrics and spans."""
    global _otel  # one for the process
    old, _otel = _otel, None
    observer.replace(old, None)


def harmless(method: Callable[P, None]) -> Callable[P, None]:
    """Wrap a method so that it logs exceptions instead of raising them.

    A broken exporter must not make an acquisition or a release fail.
    """

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception:
            log.exception("telemetry failed; the locks are not affected")

    return call


class Otel:
    """A watcher of `claims.observer` that records to OpenTelemetry instruments."""

    def __init__(self, templates: Templates, meter: metrics.Meter, tracer: trace.Tracer) -> None:
        """Create the instruments."""
        self._templates = templates
        self._tracer = tracer
        self._places: weakref.WeakKeyDictionary[Watched, About] = weakref.WeakKeyDictionary()
        self._seen: set[frozenset[tuple[str, str | int]]] = set()
        self._acquire = meter.create_histogram(
            "lock.acquire.duration",
            "s",
            "Time from the request for a lock until it is granted or the request fails.",
            explicit_bucket_boundaries_advisory=WAITS,
        )
        self._hold = meter.create_histogram(
            "lock.hold.duration",
            "s",
            "Time from the grant of a lock until it is released or lost.",
            explicit_bucket_boundaries_advisory=HOLDS,
        )
        self._lost = meter.create_counter(
            "lock.lost", "{lock}", "Locks that were lost before they were released."
        )
        self._rejected = meter.create_counter(
            "lock.fence.rejected",
            "{write}",
            "Writes that a guard rejected, because it had seen a higher token.",
        )
        meter.create_observable_up_down_counter(
            "lock.held",
            [lambda _: self._count(HELD)],
            "{lock}",
            "Locks that this process holds.",
        )
        meter.create_observable_up_down_counter(
            "lock.waiters",
            [lambda _: self._count(WAITING)],
            "{waiter}",
            "Acquisitions of this process that wait for a lock.",
        )

    def trace(self) -> str:
        """Return the current span as W3C's `traceparent`, if it is recorded."""
        try:
            span = trace.get_current_span().get_span_context()
            if span.trace_flags.sampled:
                return f"00-{span.trace_id:032x}-{span.span_id:016x}-01"
        except Exception:
            log.exception("telemetry failed; the locks are not affected")
        return ""

    def granted(self, session: Watched, claim: Claim, began: float) -> Hold:
        """Record a successful acquisition, and return what records the end of its hold."""
        hold = Hold(self, session, claim)
        self.acquired(hold.about, hold.since - began, {"lock.ticket": claim.ticket})
        return hold

    def failed(self, session: Watched, shape: Shape, began: float, error: BaseException) -> None:
        """Record an acquisition that ended without a lease."""
        about = self.about(session, shape.name, shape.template)
        about["error.type"] = type(error).__qualname__
        self.acquired(about, session.runtime.now() - began, {})

    @harmless
    def acquired(self, about: About, took: float, more: About) -> None:
        """Record the duration of an acquisition, as a metric and as a span."""
        self._acquire.record(took, about)
        self._span("lock.acquire", took, {**about, **more}, None)

    @harmless
    def ended(self, hold: Hold, about: About, took: float, *, lost: bool) -> None:
        """Record the duration of a hold, and count the loss if it was lost."""
        self._hold.record(took, about)
        if lost:
            self._lost.add(1, about)
        self._span("lock.hold", took, {**about, "lock.ticket": hold.ticket}, hold.parent)

    @harmless
    def refused(self, session: Watched | None, name: str, template: str) -> None:
        """Count a write that a guard rejected."""
        self._rejected.add(1, self.about(session, name, template))

    def about(self, session: Watched | None, name: str, template: str) -> About:
        """Return a lock's attributes: its engine's address and its template, never its name."""
        place = self._place(session) if session is not None else {}
        return {**place, "lock.template": template or self._templates.of(name)}

    def _place(self, session: Watched) -> About:
        known = self._places.get(session)
        if known is None:
            known = self._places[session] = _place(session)
        return known

    def _span(self, name: str, took: float, about: About, parent: context.Context | None) -> None:
        """Record a span of `took` seconds that ends now, when its outcome is known."""
        end = time.time_ns()
        span = self._tracer.start_span(
            name, parent, SpanKind.CLIENT, about, start_time=end - int(took * 1e9)
        )
        if "error.type" in about:
            span.set_status(StatusCode.ERROR, str(about["error.type"]))
        span.end(end)

    def _count(self, phase: Phase) -> Iterator[Observation]:
        """Yield the number of claims in a phase, for each set of attributes.

        A set that was seen once is reported from then on, with 0 when no claim has it any more. If
        it were left out, a reader could not tell 0 from a missing value.
        """
        if not observer.watches(self):
            return
        found: Counter[frozenset[tuple[str, str | int]]] = Counter()
        for reference in sessions.valuerefs():
            session = reference()
            for claim in session.table.all() if session is not None else ():
                if claim.phase is phase:
                    about = self.about(session, claim.shape.name, claim.shape.template)
                    found[frozenset(about.items())] += 1
        self._seen.update(found)
        for each in tuple(self._seen):  # a copy: another reader may add to it at the same time
            yield Observation(found[each], dict(each))


class Hold:
    """The telemetry of one grant: when it began, its attributes and its parent span."""

    __slots__ = ("_first", "_otel", "_session", "about", "parent", "since", "ticket")

    def __init__(self, otel: Otel, session: Watched, claim: Claim) -> None:
        """Start to measure the hold now."""
        self._otel = otel
        self._session = session
        self.since = session.runtime.now()
        self.about = otel.about(session, claim.shape.name, claim.shape.template)
        self.ticket = claim.ticket
        self.parent = context.get_current()
        self._first = threading.Lock()

    def ended(self, loss: Loss | None) -> None:
        """Record the end of the hold, once: a release and the heart may both call this.

        A hold of the parent process (`FOREIGN`) is not recorded, since the parent records it.
        """
        if loss is Loss.FOREIGN or not self._first.acquire(blocking=False):
            return
        took = self._session.runtime.now() - self.since
        why = "dropped" if loss is None else loss.name.lower()
        about = self.about if loss is Loss.RELEASED else {**self.about, "error.type": why}
        self._otel.ended(self, about, took, lost=loss in LOSSES)


def _place(session: Watched) -> About:
    """Return the engine's address, by OpenTelemetry's semantic conventions for databases."""
    target = session.target
    if target is None:
        return {}
    about: About = {"db.system.name": system(target)}
    if target.hosts:
        about["server.address"] = ",".join(host for host, _ in target.hosts)
        port = target.hosts[0][1]
        if len(target.hosts) == 1 and port is not None:
            about["server.port"] = port
    return about
