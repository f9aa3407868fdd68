"""`/metrics`: the figures of a replica as text, in the format of Prometheus (0.0.4).

The names are those that OpenTelemetry's exporter for Prometheus makes of the names of `figures`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lockfast.service.figures import Counter, Figures, Gauge, Histogram, Labels

TYPE = b"text/plain; version=0.0.4; charset=utf-8"


def page(figures: Figures, worker: str = "") -> str:
    """Return all figures as text. `worker`: the value of an attribute that each gets, if any."""
    lines: list[str] = []
    for gauge in figures.gauges:
        name = _head(lines, gauge, "", "gauge")
        lines.append(f"{name}{_labels(worker, (), ())} {gauge.read()}")
    for counter in figures.counters:
        name = _head(lines, counter, "_total", "counter")
        lines += [
            f"{name}{_labels(worker, counter.keys, values)} {count}"
            for values, count in counter.counts.items()
        ]
    for histogram in figures.histograms:
        name = _head(lines, histogram, "", "histogram")
        lines += _distribution(name, histogram, worker)
    return "\n".join(lines) + "\n"


def _head(lines: list[str], metric: Gauge | Counter | Histogram, suffix: str, kind: str) -> str:
    """Add the lines that describe a metric. Return its name."""
    unit = "_seconds" if metric.unit == "s" else ""
    name = f"{_plain(metric.name)}{unit}{suffix}"
    lines += [f"# HELP {name} {metric.text}", f"# TYPE {name} {kind}"]
    return name


def _distribution(name: str, histogram: Histogram, worker: str) -> Iterator[str]:
    for values, series in histogram.series.items():
        keys, count = (*histogram.keys, "le"), 0
        for bound, more in zip((*histogram.bounds, "+Inf"), series.counts, strict=True):
            count += more
            yield f"{name}_bucket{_labels(worker, keys, (*values, str(bound)))} {count}"
        labels = _labels(worker, histogram.keys, values)
        yield f"{name}_sum{labels} {series.sum!r}"
        yield f"{name}_count{labels} {count}"


def _labels(worker: str, keys: Labels, values: Labels) -> str:
    """Return attributes as Prometheus writes them. No value needs to be escaped."""
    if worker:
        keys, values = ("worker", *keys), (worker, *values)
    if not keys:
        return ""
    pairs = zip(keys, values, strict=True)
    return "{" + ",".join(f'{_plain(key)}="{value}"' for key, value in pairs) + "}"


def _plain(name: str) -> str:
    return name.replace(".", "_")
