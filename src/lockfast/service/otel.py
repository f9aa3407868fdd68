"""Figures and spans of a replica for OpenTelemetry."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from opentelemetry import metrics, trace
from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    TracerProvider,
)

from lockfast.service.entry import Answer
from lockfast.service.figures import Counter, Figures, Gauge, Histogram, Labels, outcome
from lockfast.service.replies import fault
from lockfast.telemetry import harmless

Read = Callable[[CallbackOptions], Iterator[Observation]]


def instrument(
    figures: Figures,
    meter_provider: MeterProvider | None = None,
    tracer_provider: TracerProvider | None = None,
) -> None:
    """Export the figures of a replica, and record spans. None: the global providers."""
    meter = metrics.get_meter("lockfast", meter_provider=meter_provider)
    for gauge in figures.gauges:
        meter.create_observable_up_down_counter(
            gauge.name, [_reader_of(gauge)], gauge.unit, gauge.text
        )
    for counter in figures.counters:
        meter.create_observable_counter(
            counter.name, [_reader(counter)], counter.unit, counter.text
        )
    for histogram in figures.histograms:
        histogram.also = _recorder(histogram, meter)
    figures.spans = OtelSpans(trace.get_tracer("lockfast", tracer_provider=tracer_provider))


def _reader_of(gauge: Gauge) -> Read:
    def read(_: CallbackOptions) -> Iterator[Observation]:
        yield Observation(gauge.read())

    return read


def _reader(counter: Counter) -> Read:
    def read(_: CallbackOptions) -> Iterator[Observation]:
        for values, count in list(counter.counts.items()):  # the exporter's thread reads
            yield Observation(count, _attributes(counter.keys, values))

    return read


def _recorder(histogram: Histogram, meter: Meter) -> Callable[[float, Labels], None]:
    instrument = meter.create_histogram(
        histogram.name,
        histogram.unit,
        histogram.text,
        explicit_bucket_boundaries_advisory=histogram.bounds,
    )

    @harmless
    def record(value: float, values: Labels) -> None:
        instrument.record(value, _attributes(histogram.keys, values))

    return record


def _attributes(keys: Labels, values: Labels) -> dict[str, str]:
    """Return attributes. An empty value is left out, as OpenTelemetry wants it for `error.type`."""
    return {key: value for key, value in zip(keys, values, strict=True) if value}


class OtelSpans:
    """Records spans whose parents are spans of clients."""

    def __init__(self, tracer: Tracer) -> None:
        """Record to this tracer."""
        self._tracer = tracer

    @harmless
    def record(self, request: str, parent: str, began: int, answer: Answer) -> None:
        """Record a span that began at this time, and ends now."""
        _, trace_id, span_id, flags = parent.split("-")
        sampled = TraceFlags(int(flags, 16))
        context = SpanContext(
            int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=sampled
        )
        span = self._tracer.start_span(
            f"lock.service.{request}",
            trace.set_span_in_context(NonRecordingSpan(context), Context()),
            SpanKind.SERVER,
            {"lock.outcome": outcome(answer)},
            start_time=began,
        )
        if isinstance(answer, Exception):
            kind = fault(answer).kind
            span.set_attribute("error.type", kind)
            span.set_status(StatusCode.ERROR, kind)
        span.end()
