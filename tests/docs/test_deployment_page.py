"""What the page about deployment says of the service is so."""

from __future__ import annotations

import re

import yaml

from lockfast.service import wire, workers
from lockfast.service.figures import Figures
from lockfast.service.metrics_page import page
from tests.docs.page import ROOT

PAGE = (ROOT / "docs" / "service" / "deployment.md").read_text("utf-8")
MANIFESTS = (ROOT / "contrib" / "kubernetes" / "lockfast.yaml").read_text("utf-8")


def test_the_metrics_of_its_alerts_exist_with_these_values() -> None:
    figures = Figures(lambda: 0)
    known = {
        *re.findall(r"^# TYPE (\S+)", page(figures), re.MULTILINE),
        "lock_service_engine_duration_seconds_count",
    }
    named = set(re.findall(r"\block_service_\w+", PAGE))
    assert named
    assert named <= known
    for metric, key, value in re.findall(r'(lock_service_\w+)\{(\w+)="([\w-]+)"\}', PAGE):
        assert f'{metric}{{{key}="{value}"}}' in page(figures)


def test_what_it_says_of_workers_is_so() -> None:
    assert (workers.DEATHS, workers.WINDOW, workers.GIVEN_UP) == (10, 60.0, 70)
    assert (
        "If ten workers end within a minute, the eleventh ends the service with exit code 70"
        in PAGE
    )


def test_a_silent_connection_is_pinged_as_often_as_it_says() -> None:
    between = f"after {wire.SILENCE:.0f} to {2 * wire.SILENCE:.0f} seconds of silence"
    assert f"sends a ping {between}" in PAGE


def test_what_it_says_of_the_pods_is_so() -> None:
    (deployment,) = (each for each in yaml.safe_load_all(MANIFESTS) if each["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert f"{pod['terminationGracePeriodSeconds']} seconds for the pause" in PAGE
    pause = pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][1]
    assert f"serving for {pause} seconds" in PAGE
    assert MANIFESTS.count("EDIT:") == 5
