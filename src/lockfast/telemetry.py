"""Telemetry by OpenTelemetry: metrics and spans, once for every engine, in threads and asyncio.

`instrument()` sets the watcher of `claims.observer`. What is held and what waits is counted when
somebody collects, from the tables of the clients: that costs an acquisition nothing, and cannot
drift.
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

LOSSES = {Loss.EXPIRED, Loss.UNREACHABLE, Loss.GONE, Loss.FENCED}
# A lock is granted within a fraction of a millisecond, or after a minute in line.
STEPS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
WAITS = (0.00025, 0.0005, *STEPS)
HOLDS = (*STEPS, 300.0, 1800.0)


def instrument(
    *,
    templates: Sequence[str] = (),
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
) -> None:
    """Tell OpenTelemetry of every lock of this process, also of clients that exist already.

    `templates`: what names are made from, such as "invoice:{number}". A name is never shown: it
    shows as the first of these that fits it, or as "other". The template of a decorated function
    needs no mention.
    Without providers, those that OpenTelemetry was set up with. The last call counts.
    """
    observer.watcher = Otel(
        Templates(templates),
        metrics.get_meter("lockfast", meter_provider=meter_provider),
        trace.get_tracer("lockfast", tracer_provider=tracer_provider),
    )


def uninstrument() -> None:
    """Tell no more."""
    observer.watcher = None


def harmless(method: Callable[P, None]) -> Callable[P, None]:
    """Make something that never raises: a broken exporter must not cost anybody a lock."""

    @wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception:
            log.exception("telemetry failed; the locks go on")

    return call


class Otel:
    """A watcher that writes to instruments of OpenTelemetry."""

    def __init__(self, templates: Templates, meter: metrics.Meter, tracer: trace.Tracer) -> None:
        """Make the instruments."""
        self._templates = templates
        self._tracer = tracer
        self._places: weakref.WeakKeyDictionary[Watched, About] = weakref.WeakKeyDictionary()
        self._seen: set[frozenset[tuple[str, str | int]]] = set()
        self._acquire = meter.create_histogram(
            "lock.acquire.duration",
            "s",
            "Time from asking for a lock to getting it, or to giving up.",
            explicit_bucket_boundaries_advisory=WAITS,
        )
        self._hold = meter.create_histogram(
            "lock.hold.duration",
            "s",
            "Time from getting a lock to releasing or losing it.",
            explicit_bucket_boundaries_advisory=HOLDS,
        )
        self._lost = meter.create_counter(
            "lock.lost", "{lock}", "Locks that were lost before they were released."
        )
        self._rejected = meter.create_counter(
            "lock.fence.rejected",
            "{write}",
            "Writes that a guard refused: a later holder had been there.",
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
            "Acquisitions of this process that stand in line.",
        )

    def granted(self, session: Watched, claim: Claim, began: float) -> Hold:
        """Write an acquisition; what is given back writes the hold, at its end."""
        hold = Hold(self, session, claim)
        self.acquired(hold.about, hold.since - began, {"lock.ticket": claim.ticket})
        return hold

    def failed(self, session: Watched, shape: Shape, began: float, error: BaseException) -> None:
        """Write an acquisition that gave no lease."""
        about = self.about(session, shape.name, shape.template)
        about["error.type"] = type(error).__qualname__
        self.acquired(about, session.runtime.now() - began, {})

    @harmless
    def acquired(self, about: About, took: float, more: About) -> None:
        """Write how long an acquisition took."""
        self._acquire.record(took, about)
        self._span("lock.acquire", took, {**about, **more}, None)

    @harmless
    def ended(self, hold: Hold, about: About, took: float, *, lost: bool) -> None:
        """Write how long a hold lasted."""
        self._hold.record(took, about)
        if lost:
            self._lost.add(1, about)
        self._span("lock.hold", took, {**about, "lock.ticket": hold.ticket}, hold.parent)

    @harmless
    def refused(self, session: Watched | None, name: str, template: str) -> None:
        """Write a refusal."""
        self._rejected.add(1, self.about(session, name, template))

    def about(self, session: Watched | None, name: str, template: str) -> About:
        """Return the attributes of a lock."""
        place = self._place(session) if session is not None else {}
        return {**place, "lock.template": template or self._templates.of(name)}

    def _place(self, session: Watched) -> About:
        known = self._places.get(session)
        if known is None:
            known = self._places[session] = _place(session)
        return known

    def _span(self, name: str, took: float, about: About, parent: context.Context | None) -> None:
        """Write a span that ends now: it is made when all of it is known."""
        end = time.time_ns()
        span = self._tracer.start_span(
            name, parent, SpanKind.CLIENT, about, start_time=end - int(took * 1e9)
        )
        if "error.type" in about:
            span.set_status(StatusCode.ERROR, str(about["error.type"]))
        span.end(end)

    def _count(self, phase: Phase) -> Iterator[Observation]:
        """Count claims. One that was seen once is told of for ever: gone is 0, and not unknown."""
        if observer.watcher is not self:
            return
        found: Counter[frozenset[tuple[str, str | int]]] = Counter()
        for reference in sessions.valuerefs():
            session = reference()
            for claim in session.table.all() if session is not None else ():
                if claim.phase is phase:
                    about = self.about(session, claim.shape.name, claim.shape.template)
                    found[frozenset(about.items())] += 1
        self._seen.update(found)
        for each in tuple(self._seen):  # another reader may collect at the same time
            yield Observation(found[each], dict(each))


class Hold:
    """What is remembered of a grant."""

    __slots__ = ("_first", "_otel", "_session", "about", "parent", "since", "ticket")

    def __init__(self, otel: Otel, session: Watched, claim: Claim) -> None:
        """Begin now."""
        self._otel = otel
        self._session = session
        self.since = session.runtime.now()
        self.about = otel.about(session, claim.shape.name, claim.shape.template)
        self.ticket = claim.ticket
        self.parent = context.get_current()
        self._first = threading.Lock()

    def ended(self, loss: Loss | None) -> None:
        """Write it, unless it is the parent process's. A release and the heart may both tell."""
        if loss is Loss.FOREIGN or not self._first.acquire(blocking=False):
            return
        took = self._session.runtime.now() - self.since
        why = "dropped" if loss is None else loss.name.lower()
        about = self.about if loss is Loss.RELEASED else {**self.about, "error.type": why}
        self._otel.ended(self, about, took, lost=loss in LOSSES)


def _place(session: Watched) -> About:
    """Say where an engine is, in the words of OpenTelemetry's conventions for databases."""
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
