"""Schedulers of which the leader's runs: APScheduler and FastAPI, in real processes.

The examples write a line for each turn: the process, and its term.
"""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.servers import EtcdCluster, Program, Redis, free_port, wait_until

EXAMPLES = Path(__file__).parents[2] / "docs" / "how-to" / "examples"
LONG = 60.0  # seconds that a program may take, on a machine that has others to run


class Turn(NamedTuple):
    """What a leader has written."""

    pid: int
    term: int


@pytest.fixture
def redis() -> Iterator[Redis]:
    with Redis() as server:
        yield server


def turns(redis: Redis) -> list[Turn]:
    found: list[object] = []
    for key in ("apscheduler:polls", "fastapi:polls"):  # a test has one program, so one is empty
        listed = redis.command("LRANGE", key, 0, -1)
        assert isinstance(listed, list)
        found += listed
    return [Turn(*map(int, each.split())) for each in found if isinstance(each, bytes)]


def led_by_another(redis: Redis, before: int = 0) -> Turn:
    """Wait until somebody else has taken two turns, and give the last."""

    def changed() -> bool:
        return [each.pid != before for each in turns(redis)[-2:]] == [True, True]

    wait_until(changed, "another leads", LONG)
    return turns(redis)[-1]


def terms_in_order(redis: Redis) -> bool:
    """Tell whether no leader wrote after the next had begun."""
    terms = [each.term for each in turns(redis)]
    return terms == sorted(terms) and len(set(turns(redis))) == len(set(terms))


def test_of_three_schedulers_one_runs_its_jobs_and_a_killed_one_is_replaced(redis: Redis) -> None:
    urls = {"REDIS_URL": redis.url, "LOCKFAST_URL": redis.url}
    with ExitStack() as stack:
        jobs = [Program(["jobs"], EXAMPLES / "apscheduler", "", urls) for _ in range(3)]
        for each in jobs:
            stack.callback(each.close)
            each.launch()
        first = led_by_another(redis)
        by_pid = {each.pid: each for each in jobs}
        by_pid[first.pid].kill()
        second = led_by_another(redis, first.pid)
        by_pid[second.pid].stop()  # resigns
        led_by_another(redis, second.pid)
    assert terms_in_order(redis)


def test_of_three_workers_of_an_app_one_does_the_work_and_a_killed_one_is_replaced(
    redis: Redis,
) -> None:
    port = str(free_port())
    argv = ["uvicorn", "app:app", "--workers", "3", "--port", port]
    patient = ["--timeout-worker-healthcheck", "60"]  # else a slow machine's workers are killed
    with EtcdCluster(1) as etcd:
        urls = {"REDIS_URL": redis.url, "LOCKFAST_URL": etcd.url}
        with Program([*argv, *patient], EXAMPLES / "fastapi", "startup complete", urls) as server:
            first = led_by_another(redis)
            os.kill(first.pid, signal.SIGKILL)
            led_by_another(redis, first.pid)
            assert terms_in_order(redis)
            answers: set[int | None] = set()

            def asked() -> bool:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/leader", timeout=5) as reply:
                    answers.add(json.load(reply)["term"])
                return answers >= {None, turns(redis)[-1].term}

            wait_until(asked, "the leader says its term, and another that it does not lead", LONG)
            assert server.alive
