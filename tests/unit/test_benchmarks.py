"""The benchmarks: each runs, and hands over the figures that it promises."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from benchmarks import handover, scale
from benchmarks.__main__ import BENCHMARKS, ON_EVERY_ENGINE
from benchmarks.against import ENGINES, against
from benchmarks.scaling.point import Used
from benchmarks.stage import Stage, cpu_of
from tests.servers import Postgres

ROOT = Path(__file__).parents[2]
PROMISED: dict[str, dict[str, type]] = {
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
    "handover": {"ratio_to_without_waiters": float, "names": int, "per_second": dict},
    "fight": {
        "ratio_to_redis_py": float,
        "worst_wait_ratio": float,
        "processes": int,
        "per_second": dict,
        "worst_wait_ms": dict,
    },
    "server": {
        "ratio_to_smallest": float,
        "queued_cpu_ratio_to_claim": float,
        "requests_per_second": dict,
    },
    "guard": {
        "postgres_ratio": float,
        "mysql_ratio": float,
        "redis_ratio": float,
        "writes_per_second": dict,
    },
    "together": {"ratio_to_singly": float, "names": int, "per_second": dict, "cpu_us": dict},
    "service": {
        "tasks_ratio_to_direct": float,
        "clients_ratio_to_direct": float,
        "engine_cpu_ratio": float,
        "handoff_ratio_to_direct": float,
        "replica_cpu_ratio_to_echo": float,
        "engine_connections": int,
    },
    "idle": {
        "lost": int,
        "replica_cpu": float,
        "kb_per_connection": float,
        "engine_cpu_per_renewal_ratio": float,
    },
    "costs": {"direct": dict, "service": dict, "node": dict, "replica": dict, "about": dict},
    "http": {"ratio_to_bare": float, "pairs_per_second": dict},
    "web": {
        "page_p95_ratio_to_bare": float,
        "fragment_p95_ratio_to_bare": float,
        "p95_ms": dict,
        "scans_per_second": float,
        "scans_per_second_of_one_viewer": float,
    },
    "scale": {"lost": int, "least_ratio": float, "most_ratio": float, "good": int, "points": dict},
}
ON_OTHERS = {
    "hold": {"lost", "heart_cpu", "server_cpu", "leases"},
    "handover": {"ratio_to_without_waiters"},
    "fight": {"ratio_to_polling", "worst_wait_ratio"},
    "tasks": {"ratio_to_unbatched", "cpu_ratio_to_unbatched", "ratio_to_bare"},
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
    if name in {"hold", "idle", "scale"}:
        assert figures["lost"] == 0
    if name == "web":  # one scan for all ten viewers, at most twice a second
        scans = figures["scans_per_second"]
        assert isinstance(scans, float)
        assert scans < 5.0
    if name == "handoff":
        for mode in ("threads", "asyncio"):
            each = figures[mode]
            assert isinstance(each, dict)
            assert set(each) == {"p50_us", "p99_us", "p50_gap_over_publish"}


@pytest.mark.wide
def test_a_handoff_is_compared_with_that_of_a_commit() -> None:
    figures = figures_of("handoff", "redis", "--before", "HEAD")
    for mode in ("threads", "asyncio"):
        assert type(figures[f"{mode}_ratio_to_before"]) is float
        assert {mode, f"{mode} before"} < set(figures)


@pytest.mark.wide
@pytest.mark.parametrize("engine", OTHERS)
def test_a_pair_is_compared_with_the_bare_calls_on_every_engine(engine: str) -> None:
    figures = figures_of("pair", engine)
    rates = figures["pairs_per_second"]
    assert isinstance(rates, dict)
    assert {"lockfast", "bare"} <= set(rates)
    for other in ("bare", "unbatched"):
        assert type(figures[f"ratio_to_{other}"]) is float
        assert type(figures[f"cpu_ratio_to_{other}"]) is float


@pytest.mark.wide
@pytest.mark.parametrize("engine", OTHERS)
def test_a_handoff_is_compared_with_that_of_a_peer_on_every_engine(engine: str) -> None:
    figures = figures_of("handoff", engine)
    peers = [name for name, each in figures.items() if isinstance(each, dict)]
    assert {"threads", "asyncio"} < set(peers)
    for name in peers:
        each = figures[name]
        assert isinstance(each, dict)
        assert {"p50_us", "p99_us"} <= set(each)
    assert any(field.startswith("ratio_to_") for field in figures)


@pytest.mark.wide
@pytest.mark.parametrize("engine", OTHERS)
def test_ten_at_once_are_compared_with_ten_single_ones_on_every_engine(engine: str) -> None:
    assert type(figures_of("together", engine)["ratio_to_singly"]) is float


@pytest.mark.wide
@pytest.mark.parametrize("name", ON_OTHERS)
def test_a_benchmark_hands_over_the_same_on_every_engine(name: str) -> None:
    # Some at once: they mostly wait, for a ttl or for a disk.
    with ThreadPoolExecutor(3) as pool:
        each = dict(zip(OTHERS, pool.map(partial(figures_of, name), OTHERS), strict=True))
    for engine, figures in each.items():
        assert ON_OTHERS[name] <= set(figures), engine
    if name == "hold":
        assert {engine: figures["lost"] for engine, figures in each.items()} == dict.fromkeys(
            OTHERS, 0
        )
        leases = {engine: figures["leases"] for engine, figures in each.items()}
        assert leases == {**dict.fromkeys(OTHERS, 200), "postgres": 400}  # a fiftieth
        spent = {engine for engine, figures in each.items() if figures["server_cpu"]}
        assert spent == set(OTHERS) - {"sqlite"}  # which has no server
    if name == "tasks":
        assert "ratio_to_smallest_durable_function" in each["postgres"]


@pytest.mark.wide
def test_hand_overs_are_measured_where_a_commit_takes_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side, found = against("postgres"), []

    @contextmanager
    def slow() -> Iterator[Postgres]:
        assert side.slow is not None
        with side.slow() as server:
            found.extend(
                server.command("SHOW commit_delay") + server.command("SHOW commit_siblings")
            )
            yield server

    monkeypatch.setattr(Stage, "against", replace(side, slow=slow))
    handover.run(Stage("postgres", quick=True))
    assert found == [("5000",), ("1",)]


def test_the_cpu_time_of_a_server_has_that_of_its_children() -> None:
    burn = "import time\nwhile time.process_time() < 0.3: pass"
    run = f"subprocess.Popen([sys.executable, '-c', {burn!r} + {{then!r}}], stdout=1)"
    ended, alive = run.format(then=""), run.format(then="\nprint(flush=True)\ntime.sleep(60)")
    for code in (f"{ended}.wait(); print(flush=True)", alive):
        whole = f"import subprocess, sys, time; {code}; time.sleep(60)"
        with subprocess.Popen(
            [sys.executable, "-c", whole], stdout=subprocess.PIPE, start_new_session=True
        ) as parent:
            assert parent.stdout is not None
            parent.stdout.readline()
            spent = cpu_of([parent.pid])
            os.killpg(parent.pid, signal.SIGKILL)
        assert spent >= 0.3, code


def test_make_runs_all_of_them() -> None:
    lines = (ROOT / "Makefile").read_text("utf-8").splitlines()
    named = dict(line.split(" := ") for line in lines if " := " in line)
    assert tuple(named["BENCHMARKS"].split()) == BENCHMARKS
    assert tuple(named["ON_EVERY_ENGINE"].split()) == ON_EVERY_ENGINE
    assert set(BENCHMARKS) == set(PROMISED)


def refusal(*argv: str) -> str:
    """Return what the command says about arguments that it does not take."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *argv],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 2
    return done.stderr


def test_what_is_measured_on_redis_alone_says_so() -> None:
    assert "server is for redis" in refusal("server", "--engine", OTHERS[0])


def test_what_a_fleet_did_not_use_is_not_compared() -> None:
    predicted, measured = Used(0.0, 0.0, 0.5, 3e6, 10.0, 0.0), Used(0.0, 0.0, 0.4, 2e6, 20.0, 0.0)
    found = scale.compared(predicted, measured)
    assert {name: each.ratio for name, each in found.items()} == {
        "engine_cpu": 1.25,
        "engine_memory": 1.5,
        "network": 0.5,
    }


def test_a_point_is_of_scale_only() -> None:
    assert "--point is for scale" in refusal("pair", "--point", "leases")


def test_a_wrong_name_is_refused_with_the_right_ones() -> None:
    said = refusal("pears")
    assert all(name in said for name in PROMISED)
