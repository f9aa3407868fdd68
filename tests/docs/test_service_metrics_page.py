"""The page of the service's metrics has each one, and each value of their attributes."""

from __future__ import annotations

import re

from lockfast.service.app import PAGES, WEB
from lockfast.service.figures import OTHER, REQUESTS, Figures
from lockfast.service.http.routes import OPENAPI, ROUTES
from lockfast.service.metrics_page import page
from lockfast.service.signing import JWKS
from tests.docs.page import ROOT

PATH = ROOT / "docs" / "service" / "metrics.md"
PAGE = PATH.read_text("utf-8")
ROW = re.compile(r"^\| `(lock_\w+)` \| (\w+) \|(.*?)\| ", re.MULTILINE)


def test_each_metric_is_on_the_page_with_its_type_and_attributes() -> None:
    figures = Figures(lambda: 0)
    types = re.findall(r"^# TYPE (\S+) (\w+)$", page(figures), re.MULTILINE)
    metrics = (*figures.counters, *figures.histograms)
    labels = [tuple(key.replace(".", "_") for key in metric.keys) for metric in metrics]
    keys = [() for _ in figures.gauges] + labels
    rows = [
        (name, kind, tuple(re.findall(r"`(\w+)`", attributes)))
        for name, kind, attributes in ROW.findall(PAGE)
    ]
    assert rows == [(*found, each) for found, each in zip(types, keys, strict=True)]


def test_each_value_of_an_attribute_is_on_the_page() -> None:
    figures = Figures(lambda: 0)
    values = {
        value for counter in figures.counters for values in counter.counts for value in values
    } | {*REQUESTS, "unavailable", "refused", "kind-mismatch", "internal", "cancelled"}
    assert not [value for value in values if value and f"`{value}`" not in PAGE]


def test_each_route_is_on_the_page() -> None:
    (row,) = re.findall(r"^\| `http_route` \| (.*)", PAGE, re.MULTILINE)
    named = set(re.findall(r"`(\S+)`", row))
    assert named == {*(route.path for route in ROUTES), OPENAPI, JWKS, *PAGES, WEB, OTHER}
