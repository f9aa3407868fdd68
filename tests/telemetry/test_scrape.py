"""A live process, scraped over HTTP as Prometheus does it; and the dashboard that shows that."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from tests.servers import Redis

ROOT = Path(__file__).parents[2]
DASHBOARD = ROOT / "contrib" / "grafana" / "lockfast.json"
MODES = ("{what}:asyncio", "{what}:threads")
PATIENCE = 30.0


class Scraped:
    """What a process shows."""

    def __init__(self, url: str) -> None:
        self._url = url

    def families(self) -> dict[str, Metric]:
        """Scrape."""
        with urlopen(self._url, timeout=PATIENCE) as page:  # noqa: S310  # an address of our own
            text = page.read().decode()
        families = {each.name: each for each in text_string_to_metric_families(text)}
        return {name: each for name, each in families.items() if name.startswith("lock_")}

    def values(self, sample: str) -> dict[str, float]:
        """Scrape one value of each template."""
        found: dict[str, float] = {}
        for family in self.families().values():
            for each in family.samples:
                if each.name == sample:
                    template = each.labels["lock_template"]
                    found[template] = found.get(template, 0.0) + each.value
        return found

    def until(self, sample: str, value: float) -> None:
        """Scrape until both modes show that value."""
        end = time.monotonic() + PATIENCE
        while (found := self.values(sample)) != dict.fromkeys(MODES, value):
            assert time.monotonic() < end, f"{sample} is {found}"
            time.sleep(0.02)


@pytest.fixture(scope="module")
def scraped() -> Iterator[Scraped]:
    """Scrape a process whose locks are held and waited for; at the end it lets go."""
    with Redis() as server:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.telemetry.scraped", server.url],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                page = Scraped(f"http://127.0.0.1:{int(process.stdout.readline())}/metrics")
                page.until("lock_waiters", 1.0)
                page.until("lock_lost_total", 1.0)
                yield page
                process.stdin.write("go\n")
                process.stdin.flush()
                assert process.stdout.readline() == "done\n"
                assert page.values("lock_held") == dict.fromkeys(MODES, 0.0)
                assert page.values("lock_waiters") == dict.fromkeys(MODES, 0.0)
                # The pair, what waited, what was held, and what was refused.
                assert page.values("lock_hold_duration_seconds_count") == dict.fromkeys(MODES, 4)
                process.stdin.write("end\n")
                process.stdin.flush()
                assert process.wait(PATIENCE) == 0
            finally:
                process.kill()


@pytest.mark.parametrize(
    ("sample", "value"),
    [
        ("lock_acquire_duration_seconds_count", 3.0),
        ("lock_hold_duration_seconds_count", 2.0),
        ("lock_held", 1.0),
        ("lock_waiters", 1.0),
        ("lock_lost_total", 1.0),
        ("lock_fence_rejected_total", 1.0),
    ],
)
def test_both_modes_show_what_they_do(scraped: Scraped, sample: str, value: float) -> None:
    assert scraped.values(sample) == dict.fromkeys(MODES, value)


def test_no_name_is_shown_and_the_engine_is(scraped: Scraped) -> None:
    labels = [s.labels for each in scraped.families().values() for s in each.samples]
    assert {each["lock_template"] for each in labels} == set(MODES)
    assert {each["db_system_name"] for each in labels} == {"redis"}
    assert {each["server_address"] for each in labels} == {"127.0.0.1"}
    assert not re.search("held:|pair:|stale:", json.dumps(labels))


def expressions() -> list[str]:
    """Give every query of the dashboard."""
    board = json.loads(DASHBOARD.read_text("utf-8"))
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return queries + [each["query"] for each in board["templating"]["list"]]


def test_the_dashboard_asks_for_what_is_shown_and_shows_all_of_it(scraped: Scraped) -> None:
    families = scraped.families().values()
    samples = {each.name for family in families for each in family.samples}
    text = "\n".join(expressions())
    asked = set(re.findall(r"\block_(?!template)\w+", text))
    assert asked <= samples
    unasked = [f.name for f in families if not any(name.startswith(f.name) for name in asked)]
    assert not unasked


def test_the_dashboard_groups_and_selects_by_labels_that_are_there(scraped: Scraped) -> None:
    families = scraped.families().values()
    labels = {label for each in families for sample in each.samples for label in sample.labels}
    used: set[str] = set()
    for query in expressions():
        used.update(re.findall(r"(\w+)=~?\"", query))
        for group in re.findall(r"by \(([^)]*)\)", query):
            used.update(name.strip() for name in group.split(","))
        used.update(re.findall(r"label_values\(\w+, (\w+)\)", query))
    assert {"lock_template", "db_system_name", "error_type", "le"} == used
    assert used <= labels


def test_no_two_panels_of_the_dashboard_lie_on_each_other() -> None:
    panels = json.loads(DASHBOARD.read_text("utf-8"))["panels"]
    places = [panel["gridPos"] for panel in panels]
    cells = [
        (x, y)
        for at in places
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in panels}) == len(panels)
