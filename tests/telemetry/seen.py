"""What OpenTelemetry was told: instruments and spans that a test can read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lockfast import telemetry

TEMPLATES = ["job:{number}", "report"]


class Seen:
    """A reader of metrics and a collector of spans."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self._spans = InMemorySpanExporter()
        self.meters = MeterProvider(metric_readers=[self._reader], shutdown_on_exit=False)
        self.tracers = TracerProvider(shutdown_on_exit=False)
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))

    def metrics(self) -> dict[str, Any]:
        """Collect: each metric by its name."""
        data = self._reader.get_metrics_data()
        resources = data.resource_metrics if data is not None else []
        scopes = [scope for resource in resources for scope in resource.scope_metrics]
        return {metric.name: metric for scope in scopes for metric in scope.metrics}

    def points(self, name: str) -> dict[str, Any]:
        """Collect one metric: its points by template, and by the error if there was one."""
        found = self.metrics().get(name)
        points = found.data.data_points if found is not None else ()
        return {_key(dict(point.attributes)): point for point in points}

    def counts(self, name: str) -> dict[str, int]:
        """Collect the values of a counter, or how often a histogram was written to."""
        points = self.points(name).items()
        return {key: getattr(point, "count", None) or point.value for key, point in points}

    def spans(self, name: str) -> list[ReadableSpan]:
        """Give the spans of that name."""
        return [span for span in self._spans.get_finished_spans() if span.name == name]

    def close(self) -> None:
        """Give everything back."""
        self.meters.shutdown()
        self.tracers.shutdown()


def _key(attributes: dict[str, Any]) -> str:
    template, error = attributes["lock.template"], attributes.get("error.type")
    return f"{template} {error}" if error else template


@contextmanager
def instrumented() -> Iterator[Seen]:
    """Instrument for as long as the block lasts."""
    seen = Seen()
    telemetry.instrument(
        templates=TEMPLATES, meter_provider=seen.meters, tracer_provider=seen.tracers
    )
    try:
        yield seen
    finally:
        telemetry.uninstrument()
        seen.close()
