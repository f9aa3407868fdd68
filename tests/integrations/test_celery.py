"""Celery: real workers, real beats, and a broker that is the test's own Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from celery import Celery

import lockfast
from lockfast.integrations.celery import once
from tests.servers import Program, Redis, wait_until

HOME = Path(__file__).parents[2] / "docs" / "how-to" / "examples" / "celery"
LONG = 60.0  # seconds that a program may take, on a machine that has others to run
SENDS = "Sending due task"
SENT = r"\.poll sent\. id->"


@pytest.fixture(scope="module")
def redis() -> Iterator[Redis]:
    with Redis() as server:
        yield server


@pytest.fixture
def sender(redis: Redis) -> Iterator[Celery]:
    with Celery("sender", broker=redis.url, set_as_current=False) as app:
        yield app


@pytest.fixture(scope="module")
def workers(redis: Redis) -> Iterator[tuple[Program, Program]]:
    """Two workers of the example, each with a queue of its own besides the one they share."""
    with ExitStack() as stack:
        a, b = programs(stack, redis, [worker("a"), worker("b")], r" ready\.")
        yield a, b


def worker(name: str) -> list[str]:
    return [
        *("worker", "--include", "tests.integrations.chores", "--hostname", name),
        *("--queues", f"{name},celery", "--concurrency", "2", "--loglevel", "INFO"),
    ]


def beat(*options: str) -> list[str]:
    return ["beat", "--loglevel", "DEBUG", *options]  # at which it says what was sent, too


def programs(
    stack: ExitStack, redis: Redis, commands: list[list[str]], ready: str
) -> list[Program]:
    """Start them all, at the same time."""
    started = [
        Program(["celery", "--app", "tasks", *command], HOME, ready, {"REDIS_URL": redis.url})
        for command in commands
    ]
    for each in started:
        stack.callback(each.close)
        stack.callback(each.kill)  # first: nobody waits for what they are at
        each.launch()
    for each in started:
        each.start()
    return started


def said(who: tuple[Program, ...] | list[Program], text: str) -> int:
    return sum(each.says(text) for each in who)


def entries(redis: Redis, key: str) -> list[bytes]:
    found = redis.command("LRANGE", key, 0, -1)
    assert isinstance(found, list)
    return [each for each in found if isinstance(each, bytes)]


def test_of_two_workers_that_got_the_message_one_runs_it(
    redis: Redis, workers: tuple[Program, Program], sender: Celery
) -> None:
    for queue in ("a", "b", "a", "b"):
        sender.send_task("tasks.report", ("monday",), queue=queue, task_id="copied")
    wait_until(lambda: said(workers, r"\[copied\] ignored") == 3, "three are left", LONG)
    wait_until(lambda: said(workers, r"\[copied\] succeeded") == 1, "one has run", LONG)
    sender.send_task("tasks.report", ("tuesday",), queue="b")
    wait_until(lambda: len(entries(redis, "report:tuesday")) == 1, "another name runs", LONG)
    (token,) = entries(redis, "report:monday")
    assert int(token) > 0


@pytest.mark.parametrize("queue", ["a", "b"])
def test_a_run_that_failed_leaves_the_way_free_for_its_retry(
    redis: Redis, workers: tuple[Program, Program], sender: Celery, queue: str
) -> None:
    name = f"flaky {queue}"
    sender.send_task("tests.integrations.chores.flaky", (name,), queue=queue, task_id=name)
    wait_until(lambda: said(workers, rf"\[{name}\] succeeded") == 1, "it has run", LONG)
    assert entries(redis, name) == [b"0", b"1"]


def test_a_busy_lock_of_the_tasks_own_is_its_failure(
    workers: tuple[Program, Program], sender: Celery
) -> None:
    sender.send_task("tests.integrations.chores.inner", task_id="inner")
    wait_until(lambda: said(workers, r"\[inner\] raised .*NotAcquired") == 1, "it fails", LONG)
    assert said(workers, r"\[inner\] ignored") == 0


def test_a_message_that_comes_back_is_run_when_the_worker_that_had_it_dies(
    redis: Redis, workers: tuple[Program, Program], sender: Celery
) -> None:
    a, b = workers
    sender.send_task("tests.integrations.chores.patient", ("a",), queue="a")
    wait_until(lambda: entries(redis, "patient") == [b"a"], "one has it", LONG)
    sender.send_task("tests.integrations.chores.patient", ("b",), queue="b", task_id="patient")
    wait_until(lambda: b.says(r"\[patient\] retry") > 0, "the other comes back later", LONG)
    assert entries(redis, "patient") == [b"a"]
    a.kill()
    wait_until(lambda: entries(redis, "patient") == [b"a", b"b"], "the other runs it", LONG)
    a.restart()


def test_a_doubled_beat_and_two_workers_run_a_task_once(
    redis: Redis, workers: tuple[Program, Program]
) -> None:
    doubled = beat("--scheduler", "tests.integrations.doubled:Doubled")
    with ExitStack() as stack:
        beats = programs(stack, redis, [doubled, doubled], "beat: Starting")
        wait_until(lambda: all(each.says(SENDS) > 2 for each in beats), "both send", LONG)
    # A beat that is ended may have said that it sends, and not done it.
    wait_until(lambda: said(workers, r"\.report\[(?!copied)\S+ ignored") > 2, "they come", LONG)
    assert len(entries(redis, "report:doubled")) == 1


def test_of_two_beats_one_sends_and_when_it_is_killed_the_other_does(
    redis: Redis, workers: tuple[Program, Program]
) -> None:
    with ExitStack() as stack:
        beats = programs(stack, redis, [beat(), beat()], "beat: Starting")
        wait_until(lambda: said(beats, SENDS) > 2, "one sends", LONG)
        first, second = sorted(beats, key=lambda each: -each.says(SENDS))
        assert second.says(SENDS) == 0
        first.kill()
        sends, sent = first.says(SENDS), first.says(SENT)
        wait_until(lambda: second.says(SENDS) > 0, "the other sends, a ttl later", LONG)
        first.restart()
        second.stop()
        assert second.says("no longer leads") == 1
        wait_until(lambda: first.says(SENDS) > 0, "one that ends hands over", LONG)
        first.stop()
        sends += said(beats, SENDS)
        sent += said(beats, SENT)

    def polled() -> int:
        found = redis.command("GET", "celery:polls")
        return int(found) if isinstance(found, bytes) else 0

    # Who is killed, or told to end, may have said that it sends, and not done it; or the reverse.
    wait_until(lambda: polled() >= sent, "each was run", LONG)
    assert said(workers, r"\.poll\S+ received") <= sends


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"at_least": 31}, "at_least must be 0 to the ttl"),
        ({"at_least": 0, "on_busy": "wait"}, "on_busy must be 'skip' or 'retry'"),
    ],
)
def test_what_cannot_be_is_said_where_the_task_is_decorated(
    wrong: dict[str, Any], error: str
) -> None:
    with lockfast.connect("memory://") as client, pytest.raises(ValueError, match=error):
        once(client, "x", **wrong)
