"""The benchmarks: each runs, and hands over the figures that it promises."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.against import ENGINES

ROOT = Path(__file__).parents[2]
PROMISED = {
    "pair": {
        "ratio_to_raw": float,
        "ratio_to_redis_py": float,
        "cpu_ratio_to_redis_py": float,
        "pairs_per_second": dict,
        "cpu_us_per_pair": dict,
    },
    "tasks": {"ratio_to_redis_py": float, "pairs_per_second": dict},
    "handoff": {
        "p50_gap_over_publish": float,
        "publish_p50_us": float,
        "publish_p99_us": float,
        "threads": dict,
        "asyncio": dict,
    },
    "crowd": {
        "p50_ratio_to_10_waiters": float,
        "grants_in_ticket_order": bool,
        "waiters": int,
        "stood_seconds": float,
        "p50_us": float,
        "p99_us": float,
        "p50_us_10_waiters": float,
        "p99_us_10_waiters": float,
    },
    "hold": {
        "lost": int,
        "heart_cpu": float,
        "server_cpu": float,
        "leases": int,
        "seconds": float,
        "acquire_seconds": float,
    },
    "server": {"ratio_to_smallest": float, "requests_per_second": dict},
    "guard": {"postgres_ratio": float, "redis_ratio": float, "writes_per_second": dict},
    "together": {"ratio_to_singly": float, "names": int, "per_second": dict, "cpu_us": dict},
}
OTHERS = [engine for engine in ENGINES if engine != "redis"]


def figures_of(name: str, engine: str = "redis", *more: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", name, "--engine", engine, "--quick", "--json", *more],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout.splitlines()[-1])
    assert isinstance(figures, dict)
    return figures


@pytest.mark.parametrize("name", PROMISED)
def test_a_benchmark_hands_over_what_it_promises(name: str) -> None:
    figures = figures_of(name)
    assert figures["benchmark"] == name
    for field, kind in PROMISED[name].items():
        assert type(figures[field]) is kind, field
    # What a program got wrong shows here, however noisy the machine is.
    if name == "crowd":
        assert figures["grants_in_ticket_order"]
    if name == "hold":
        assert figures["lost"] == 0
    if name == "handoff":
        for mode in ("threads", "asyncio"):
            each = figures[mode]
            assert isinstance(each, dict)
            assert set(each) == {"p50_us", "p99_us", "p50_gap_over_publish"}


def test_a_handoff_is_compared_with_that_of_a_commit() -> None:
    figures = figures_of("handoff", "redis", "--before", "HEAD")
    for mode in ("threads", "asyncio"):
        assert type(figures[f"{mode}_ratio_to_before"]) is float
        assert {mode, f"{mode} before"} < set(figures)


@pytest.mark.parametrize("engine", OTHERS)
def test_a_pair_is_compared_with_the_bare_calls_on_every_engine(engine: str) -> None:
    figures = figures_of("pair", engine)
    rates = figures["pairs_per_second"]
    assert isinstance(rates, dict)
    assert {"lockfast", "bare"} <= set(rates)
    assert type(figures["ratio_to_bare"]) is float


@pytest.mark.parametrize("engine", OTHERS)
def test_a_handoff_is_compared_with_that_of_a_peer_on_every_engine(engine: str) -> None:
    figures = figures_of("handoff", engine)
    peers = [name for name, each in figures.items() if isinstance(each, dict)]
    assert {"threads", "asyncio"} < set(peers)
    for name in peers:
        each = figures[name]
        assert isinstance(each, dict)
        assert set(each) == {"p50_us", "p99_us"}
    assert any(field.startswith("ratio_to_") for field in figures)


@pytest.mark.parametrize("engine", OTHERS)
def test_ten_at_once_are_compared_with_ten_single_ones_on_every_engine(engine: str) -> None:
    assert type(figures_of("together", engine)["ratio_to_singly"]) is float


def test_what_is_measured_on_redis_alone_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "server", "--engine", OTHERS[0]],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 2
    assert "server is for redis" in done.stderr


def test_a_wrong_name_is_refused_with_the_right_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "pears"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 2
    assert all(name in done.stderr for name in PROMISED)
