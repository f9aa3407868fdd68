"""Processes of one host that fight for a lock in SQLite, and are killed with SIGKILL at any moment.

python -m tests.robustness killed --seconds 60

Each worker writes what it does to one file, a line at a time. `judged` reads the lines afterwards:
one holder at a time, tokens that increase, and no wait that is longer than a ttl and two seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import lockfast
from lockfast import aio
from tests.robustness.crowd import Crowd
from tests.robustness.stamp import today, version

NAME = "killed"
SECONDS = 60.0
WORKERS = 8
TTL = 1.0
SLACK = 2.0
REST = (
    1.3,
    1.8,
)  # seconds between two strikes: longer than a ttl, so that no wait suffers from two
MOST = 4  # processes that one strike kills
BODY = 0.003  # seconds at work, at most


class Line(NamedTuple):
    """One line of a worker, or of the killer."""

    at: float
    pid: int
    what: str
    """asks, holds, leaves, lost, or killed."""
    token: int = 0


class Log:
    """The file that all processes append to. A line is one write, so lines do not mix."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def say(self, what: str, token: int = 0, pid: int | None = None) -> None:
        line = f"{time.monotonic_ns()} {pid or os.getpid()} {what} {token}\n"
        os.write(self._descriptor, line.encode())


def read(path: Path) -> list[Line]:
    """Return the lines in the order of their times."""
    lines = (line.split() for line in path.read_text("ascii").splitlines())
    return sorted(Line(int(at) / 1e9, int(pid), what, int(token)) for at, pid, what, token in lines)


# --- a worker -----------------------------------------------------------------------------------


def work(mode: str, url: str, path: str) -> None:
    """Acquire and release until SIGTERM comes. Every other worker uses asyncio."""
    log = Log(Path(path))
    over: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: over.append(number))
    if mode == "asyncio":
        asyncio.run(_work_in_a_task(log, url, over))
        return
    with lockfast.connect(url) as client:
        lock = client.lock("x", ttl=TTL)
        while not over:
            log.say("asks")
            lease = lock.acquire()
            log.say("holds", lease.token)
            time.sleep(random.uniform(0.0, BODY))  # noqa: S311  # no secret
            _leave(log, lease)
            try:
                lease.release()
            except lockfast.LeaseLost:
                log.say("lost", lease.token)


async def _work_in_a_task(log: Log, url: str, over: list[int]) -> None:
    async with aio.connect(url) as client:
        lock = client.lock("x", ttl=TTL)
        while not over:
            log.say("asks")
            lease = await lock.acquire()
            log.say("holds", lease.token)
            await asyncio.sleep(random.uniform(0.0, BODY))  # noqa: S311  # no secret
            _leave(log, lease)
            try:
                await lease.release()
            except lockfast.LeaseLost:
                log.say("lost", lease.token)


def _leave(log: Log, lease: lockfast.Lease | aio.AsyncLease) -> None:
    """Say that the work is done. If the machine stopped this process for a ttl, the lease is lost,
    and the work was not protected at its end: nothing is promised for such a time.
    """
    try:
        lease.ensure_held()
    except lockfast.LeaseLost:
        log.say("lost", lease.token)
    else:
        log.say("leaves", lease.token)


# --- the killer ---------------------------------------------------------------------------------


@contextmanager
def _workers(url: str, path: Path) -> Iterator[dict[int, subprocess.Popen[bytes]]]:
    """Start the workers. Give them by number; at the end, let them leave in peace."""
    workers = {number: _start(number, url, path) for number in range(WORKERS)}
    try:
        yield workers
        for worker in workers.values():
            worker.terminate()
        for worker in workers.values():  # one that has not begun yet is ended by the signal
            ended = worker.wait(TTL + 20)
            assert ended in {0, -signal.SIGTERM}, f"a worker ended with {ended}"
    finally:
        for worker in workers.values():
            worker.kill()
            worker.wait()


def _start(number: int, url: str, path: Path) -> subprocess.Popen[bytes]:
    mode = ("threads", "asyncio")[number % 2]
    code = "import sys; from tests.robustness.killed import work; work(*sys.argv[1:])"
    return subprocess.Popen([sys.executable, "-c", code, mode, url, str(path)])


def run(seconds: float, seed: int, say: Callable[[str], object], out: Path | None = None) -> int:
    """Strike for so many seconds; write result.json into the folder `out`, if it is given. The exit
    status is 1 if a rule was broken.
    """
    chance = random.Random(seed)  # noqa: S311  # it must replay, not be secret
    with tempfile.TemporaryDirectory() as folder:
        path, database = Path(folder) / "log", Path(folder) / "locks.db"
        url, log = f"sqlite:///{database}", Log(path)
        kills, end = 0, time.monotonic() + seconds
        began, crowd = time.monotonic(), Crowd()
        with crowd, _workers(url, path) as workers:
            time.sleep(1.0)
            while time.monotonic() < end:
                victims = chance.sample(range(WORKERS), chance.randint(1, MOST))
                for number in victims:
                    workers[number].kill()
                    log.say("killed", pid=workers[number].pid)
                for number in victims:
                    workers[number].wait()
                    workers[number] = _start(number, url, path)
                kills += len(victims)
                time.sleep(chance.uniform(*REST))
        lines = read(path)
        wrong = [*judged(lines), *_left(database)]
    for each in wrong[:20]:
        say(f"VIOLATION {each}")
    counts = Counter(line.what for line in lines)
    if not counts["holds"]:
        wrong.append("nothing was granted")
    if out is not None:
        found = result(lines, wrong, seed, kills)
        found |= {"seconds": round(time.monotonic() - began, 1), "busy": round(crowd.share, 3)}
        out.mkdir(parents=True, exist_ok=True)
        (out / "result.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    say(
        f"{counts['holds']} holds, {kills} kills, {counts['lost']} leases lost, the longest wait "
        f"{max(_waits(lines), default=0.0):.2f} s, {len(wrong)} violations"
    )
    return bool(wrong)


def result(lines: list[Line], wrong: list[str], seed: int, kills: int) -> dict[str, Any]:
    """Return what a run came to, as that of a scenario says it. There is no register here."""
    counts = Counter(line.what for line in lines)
    return {
        "scenario": NAME,
        "engine": "sqlite",
        "site": "sqlite",
        "setup": "default",
        "servers": f"SQLite {sqlite3.sqlite_version}",
        "seed": seed,
        "ttl": TTL,
        "workers": WORKERS,
        "pairs": 0,
        "acquisitions": counts["holds"],
        "releases": counts["leaves"],
        "lost": counts["lost"],
        "unknown": 0,
        "writes": {
            "fenced": {"applied": 0, "refused": 0, "unknown": 0},
            "unfenced": {"applied": 0, "stale_applied": 0, "lost_updates": 0},
        },
        "faults": {"kill-client": kills},
        "missed": 0,
        "overlaps": {"count": 0, "longest": 0.0, "rightful": 0, "where_allowed": True},
        "recovery": {"longest": round(max(_waits(lines), default=0.0), 3), "bound": TTL + SLACK},
        "violations": [{"checker": NAME, "said": said} for said in wrong],
        "control": None,
        "caught": None,
        "version": version(),
        "date": today(),
    }


def _left(database: Path) -> list[str]:
    """Return what is wrong with the database after all workers have left in peace."""
    connection = sqlite3.connect(database)
    try:
        ((found,),) = connection.execute("PRAGMA integrity_check").fetchmany(1)
        return [] if found == "ok" else [f"the database is damaged: {found}"]
    finally:
        connection.close()


# --- the judge ----------------------------------------------------------------------------------


def judged(lines: list[Line]) -> list[str]:
    """Return each breach of a rule, in words."""
    wrong = []
    holds = [line for line in lines if line.what == "holds"]
    for one, other in pairwise(holds):
        if one.token >= other.token:
            wrong.append(f"token {other.token} of {other.pid} after {one.token} of {one.pid}")
    ends = {(line.pid, line.token): line.at for line in lines if line.what in {"leaves", "lost"}}
    lost = {(line.pid, line.token) for line in lines if line.what == "lost"}
    killed = {line.pid: line.at for line in lines if line.what == "killed"}
    for one, other in pairwise(holds):
        key = one.pid, one.token
        if key in lost:
            continue
        end = ends.get(key, killed.get(one.pid))
        if end is None or end > other.at:
            wrong.append(
                f"{other.pid} held (token {other.token}) while {one.pid} did ({one.token})"
            )
    wrong += [f"a wait of {wait:.2f} s" for wait in _waits(lines) if wait > TTL + SLACK]
    return wrong


def _waits(lines: list[Line]) -> list[float]:
    """Return how long each acquisition took that ended with a lock."""
    asked: dict[int, float] = {}
    waits = []
    for line in lines:
        if line.what == "asks":
            asked[line.pid] = line.at
        elif line.what == "holds":
            waits.append(line.at - asked[line.pid])
    return waits
