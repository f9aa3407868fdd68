"""The traffic: workers in both modes do all work, record it, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import lockfast
from lockfast import aio
from lockfast.testing.harness import verbs
from lockfast.testing.harness.mode import MODES
from tests.robustness import checkers
from tests.robustness.checkers.chain import lost_updates
from tests.robustness.history import (
    Kind,
    Outcome,
    Record,
    dumped,
    gathered,
    read,
    settled,
    sizes,
)
from tests.robustness.run import read_logs
from tests.robustness.scenario import ALL
from tests.robustness.traffic.process import Task, Worker
from tests.robustness.traffic.recorder import Recorder
from tests.robustness.traffic.register import Register
from tests.robustness.verdict import stale_writes
from tests.servers.process import wait_until
from tests.servers.redis import Redis

PATIENT = 60.0


@pytest.fixture(scope="module")
def engine() -> Iterator[Redis]:
    with Redis() as started:
        yield started


@pytest.fixture(scope="module")
def resource() -> Iterator[Redis]:
    with Redis(config={"unixsocket": "s"}) as started:
        yield started


@pytest.fixture
def task(engine: Redis, resource: Redis) -> Task:
    resource.command("FLUSHALL")
    return Task(engine.url, f"unix://{resource.data_path / 's'}", sorted(set(ALL)), 1.0, 1, 7)


def granted(folder: Path) -> set[str]:
    """Tell which kinds of work were granted something so far."""
    records = [
        record
        for path in folder.glob("*.jsonl")
        for record in read(path.read_text("utf-8").splitlines(keepends=True))
    ]
    done = (record for record in records if record.outcome is Outcome.OK)
    return {record.name.partition(":")[0] for record in done if record.kind is Kind.RELEASE}


@pytest.mark.parametrize("mode", MODES)
def test_a_worker_does_all_work_and_ends_in_good_order(
    mode: str, task: Task, engine: Redis, resource: Redis, tmp_path: Path
) -> None:
    with Worker(1, mode, task, tmp_path) as worker:
        wait_until(lambda: granted(tmp_path) == set(ALL), "all work was done", PATIENT)
        assert worker.end(PATIENT) == ""
    history = gathered(tmp_path)
    assert checkers.tokens_unique(history) == []
    ends = {record.id for record in history if record.kind in (Kind.RELEASE, Kind.LOST)}
    taken = {r.id for r in history if r.kind is Kind.ACQUIRE and r.outcome is Outcome.OK}
    assert taken == ends
    fenced, bare = (read_logs(resource, fenced=fenced) for fenced in (True, False))
    assert fenced.keys() == bare.keys() >= {"election:0"}
    for log in fenced.values():
        assert lost_updates([(entry.value, entry.saw) for entry in log]) == []
    with lockfast.connect(engine.url) as client:
        for name in {record.name for record in history}:
            # At once, unless this machine was so slow that a release has failed.
            lock = client.lock(name)
            wait_until(lambda lock=lock: lock.holders() == [], f"{name} is free", PATIENT)  # type: ignore[misc]  # the lambda is of the loop


def test_a_killed_worker_begins_a_new_life_in_a_new_file(task: Task, tmp_path: Path) -> None:
    with Worker(1, "threads", task, tmp_path) as worker:
        wait_until(lambda: granted(tmp_path) != set(), "it works", PATIENT)
        worker.kill()
        worker.start()
        assert worker.client == "worker1.2"
        assert {path.name for path in tmp_path.iterdir()} == {"worker1.1.jsonl", "worker1.2.jsonl"}


def test_a_worker_that_cannot_write_to_its_register_ends_and_says_so(
    task: Task, engine: Redis, tmp_path: Path
) -> None:
    nowhere = Task(engine.url, "unix:///nowhere/s", ["register"], task.ttl, 1)
    with Worker(1, "asyncio", nowhere, tmp_path) as worker:
        wait_until(lambda: not worker.alive, "it ends", PATIENT)
        assert "nowhere" in worker.end(PATIENT)


@pytest.mark.parametrize("name", MODES)
def test_a_stale_holder_is_refused_by_the_register_and_not_by_its_twin(
    name: str, task: Task, engine: Redis, resource: Redis, tmp_path: Path
) -> None:
    mode = MODES[name]()
    connect = lockfast.connect if name == "threads" else aio.connect

    async def story() -> None:
        clients = [connect(task.url), connect(task.url)]
        recorder = Recorder(tmp_path / "both.jsonl", "both")
        register = Register(task.register, mode, recorder)
        leases = []
        pens = []
        for client in clients:
            engine.command("FLUSHALL")  # whoever held it is forgotten, and does not know
            lease = await verbs.acquire(client.lock("x", ttl=30.0))
            pen = await register.opened(lease)
            assert pen is not None
            leases.append(lease)
            pens.append(pen)
        assert await pens[1].write("new")
        assert not await pens[0].write("stale")
        assert await pens[1].write("newer")
        await register.close()
        recorder.close()
        for client in clients:
            await verbs.close(client)

    try:
        mode.run(story())
    finally:
        mode.close()
    (log,) = read_logs(resource, fenced=True).values()
    (twin,) = read_logs(resource, fenced=False).values()
    assert [entry.value for entry in log] == ["new", "newer"]
    assert [entry.value for entry in twin] == ["new", "stale", "newer"]
    assert (stale_writes(log), stale_writes(twin)) == (0, 1)
    assert lost_updates([(entry.value, entry.saw) for entry in log]) == []
    assert len(lost_updates([(entry.value, entry.saw) for entry in twin])) == 2
    writes = [record for record in gathered(tmp_path) if record.kind is Kind.WRITE]
    assert [r.value for r in writes if r.outcome is Outcome.NO] == ["stale"]
    assert not checkers.fenced_register(gathered(tmp_path))


def test_what_was_only_begun_is_unknown_and_what_was_told_counts() -> None:
    def record(began: float, outcome: Outcome) -> Record:
        return Record("a", Kind.WRITE, "x", began, began, outcome)

    begun, told, killed = (
        record(1.0, Outcome.UNKNOWN),
        record(1.0, Outcome.OK),
        record(2.0, Outcome.UNKNOWN),
    )
    assert settled([begun, told, killed]) == [told, killed]


def test_only_what_was_written_later_is_read_again(tmp_path: Path) -> None:
    def wrote(name: str, began: float) -> str:
        return dumped(Record(name, Kind.ACQUIRE, "x", began, began + 1.0, Outcome.OK)) + "\n"

    old, new = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    old.write_text(wrote("a", 1.0) + wrote("a", 2.0)[:-9], "utf-8")  # it writes the second one now
    before = sizes(tmp_path)
    old.write_text(wrote("a", 1.0) + wrote("a", 2.0), "utf-8")
    new.write_text(wrote("b", 1.5), "utf-8")
    assert [record.began for record in gathered(tmp_path, before)] == [1.5, 2.0]
    assert [record.began for record in gathered(tmp_path)] == [1.0, 1.5, 2.0]


def test_belief_is_carried_over_to_the_clock_of_the_history(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "a.jsonl", "a")
    with lockfast.connect("memory://") as client, client.lock("x", ttl=30.0) as lease:
        recorder.holding(Kind.ACQUIRE, [lease], 0.0)
        left = lease.remaining
    recorder.close()
    (record,) = gathered(tmp_path)
    assert left <= record.until - record.ended <= 30.0
