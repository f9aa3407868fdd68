"""SQLite in trouble: a writer that does not end, forks, clocks, interruptions, long queues."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType

import pytest

import lockfast
from lockfast import EngineUnavailable, Loss, aio
from lockfast.engines.sqlite import claims
from lockfast.engines.sqlite.engine import SqliteEngine
from lockfast.engines.sqlite.listener import Listener
from lockfast.port import Ask, Kind, Shape, Standing
from lockfast.runtime.drive import drive
from tests.contract.benches import SqliteBench
from tests.servers import wait_until


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/locks.db"


@pytest.fixture
def bench(tmp_path: Path) -> SqliteBench:
    return SqliteBench(tmp_path)


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


@contextmanager
def writer(url: str) -> Iterator[sqlite3.Connection]:
    """Hold the database's only write lock, as a process does that was stopped in a transaction."""
    with closing(sqlite3.connect(path_of(url), isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield connection
        connection.execute("ROLLBACK")


# --- another writer -----------------------------------------------------------------------------


def test_a_writer_that_does_not_end_costs_no_more_than_the_timeout(url: str) -> None:
    with lockfast.connect(url) as client:
        client.lock("warm").acquire().release()
        with writer(url):
            began = time.monotonic()
            with pytest.raises(EngineUnavailable, match="busy") as caught:
                client.lock("x").acquire(timeout=0.5)
            assert 0.4 < time.monotonic() - began < 2.0
            assert caught.value.sent is False
        client.lock("x").acquire(timeout=2).release()


def test_a_writer_that_does_not_end_does_not_block_the_event_loop(url: str) -> None:
    async def play() -> None:
        async with aio.connect(url) as client:
            await (await client.lock("warm").acquire()).release()
            ticks: list[float] = []

            async def tick() -> None:
                while True:
                    ticks.append(time.monotonic())
                    await asyncio.sleep(0.01)

            ticking = asyncio.create_task(tick())
            with writer(url):
                with pytest.raises(EngineUnavailable, match="busy"):
                    await client.lock("x").acquire(timeout=0.5)
                # Those behind it in the thread's queue keep their own deadlines.
                many = [client.lock(f"x {n}").acquire(timeout=0.5) for n in range(5)]
                began = time.monotonic()
                found = await asyncio.gather(*many, return_exceptions=True)
                assert all(isinstance(each, EngineUnavailable) for each in found), found
                assert time.monotonic() - began < 2.0
            ticking.cancel()
            assert len(ticks) > 40
            assert max(later - tick for tick, later in pairwise(ticks)) < 0.3
            await (await client.lock("x").acquire(timeout=2)).release()

    asyncio.run(play())


def test_a_lease_outlives_a_writer_that_ends_in_time_and_is_lost_by_another(url: str) -> None:
    with lockfast.connect(url) as client:
        lease = client.lock("x", ttl=3).acquire()
        with writer(url):
            time.sleep(2.2)
        time.sleep(0.5)
        lease.ensure_held()
        with writer(url):
            wait_until(lambda: lease.loss is not None, "the lease is lost", 5)
        assert lease.loss in {Loss.EXPIRED, Loss.UNREACHABLE}
        client.lock("x", ttl=3).acquire(timeout=5).release()


# --- forks --------------------------------------------------------------------------------------

FORKED = """
import os, sys, time
import lockfast
url = sys.argv[1]
path = url.removeprefix("sqlite:///")
client = lockfast.connect(url)
lease = client.lock("parent", ttl=60).acquire()
child = os.fork()
if not child:
    opened = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
              if os.path.exists(f"/proc/self/fd/{fd}")]
    print("inherited", [name for name in opened if name.startswith(path)], flush=True)
    own = client.lock("child", ttl=60).acquire()
    print("child", own.token, flush=True)
    sys.stdin.readline()
    own.ensure_held()
    own.release()
    print("released", flush=True)
    client.close()
    os._exit(0)
os._exit(0)  # the parent ends at once, and its locks on the file with it
"""


def test_a_child_keeps_its_locks_when_its_parent_has_ended(url: str) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", FORKED, url], stdin=pipe, stdout=pipe, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == "inherited []\n"
        assert parent.stdout.readline().startswith("child ")
        parent.wait(10)
        for _ in range(20):  # each is the last to close, unless the child's locks count
            with lockfast.connect(url) as client:
                assert client.lock("child", ttl=60).try_acquire() is None
                client.lock("other", ttl=60).acquire(timeout=5).release()
        parent.stdin.write("go\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "released\n"
    with closing(sqlite3.connect(path_of(url))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


BY_C = """
import ctypes, os, sys
import lockfast
client = lockfast.connect(sys.argv[1])
client.lock("x", ttl=60).acquire().release()
child = ctypes.PyDLL(None).fork()  # as uWSGI does, which tells Python only afterwards
if not child:
    ctypes.pythonapi.PyOS_AfterFork_Child()
    try:
        client.lock("x", ttl=60).acquire(timeout=2)
    except lockfast.EngineRefused as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
client.lock("x", ttl=60).acquire(timeout=2).release()
print("the parent goes on")
"""


def test_a_child_that_c_code_has_forked_is_refused_in_words(url: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", BY_C, url], capture_output=True, text=True, timeout=60, check=False
    )
    said, parent, _ = ran.stdout.split("\n")
    assert "was forked" in said, ran.stderr
    assert parent == "the parent goes on"


HOLDING = """
import sys
import lockfast
with lockfast.connect(sys.argv[1]) as client, client.lock("x", ttl=60):
    print("held", flush=True)
    sys.stdin.readline()
"""
WAITING = """
import os, sys, threading, time
import lockfast
client = lockfast.connect(sys.argv[1])
def wait():
    lease = client.lock("x", ttl=60).acquire(timeout=20)
    print("acquired", flush=True)
    lease.release()
thread = threading.Thread(target=wait)
thread.start()
while len(client.lock("x").queue()) < 2:
    time.sleep(0.01)
for _ in range(3):
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
print("waits", flush=True)
thread.join()
client.close()
"""


def test_a_waiter_hears_of_its_grant_though_its_process_has_forked(url: str) -> None:
    pipe = subprocess.PIPE
    start = [sys.executable, "-c"]
    with subprocess.Popen([*start, HOLDING, url], stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with subprocess.Popen([*start, WAITING, url], stdout=pipe, text=True) as waiter:
            assert waiter.stdout is not None
            assert waiter.stdout.readline() == "waits\n"
            holder.stdin.write("release\n")
            holder.stdin.flush()
            began = time.monotonic()
            assert waiter.stdout.readline() == "acquired\n"
            assert time.monotonic() - began < 2.0  # else it looks by itself after ten seconds


WITHIN = """
import os, signal, sys
import lockfast
from lockfast.engines.sqlite import claims
client = lockfast.connect(sys.argv[1])
client.lock("warm", ttl=60).acquire().release()
children = []
signal.signal(signal.SIGUSR1, lambda *_: children.append(os.fork()))
sweep = claims.Claims._sweep
def interrupted(self, transaction):
    if not children:
        os.kill(os.getpid(), signal.SIGUSR1)
    sweep(self, transaction)
claims.Claims._sweep = interrupted
try:
    lease = client.lock("x", ttl=60).acquire(timeout=1)
except lockfast.LockfastError as error:
    print("child" if not children[0] else "parent", type(error).__name__, flush=True)
    os._exit(0)
os.waitpid(children[0], 0)
lease.release()
print("parent released", flush=True)
"""


def test_a_child_that_a_signal_handler_has_forked_in_a_transaction_does_not_commit_it(
    url: str,
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WITHIN, url], capture_output=True, text=True, timeout=60, check=False
    )
    child, parent, _ = ran.stdout.split("\n")
    assert child.startswith("child Engine"), ran.stderr
    assert parent == "parent released"
    with closing(sqlite3.connect(path_of(url))) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# --- clocks -------------------------------------------------------------------------------------

IN_ANOTHER_TIME = """
import sys
import lockfast
with lockfast.connect(sys.argv[1]) as client, client.lock("x", ttl=5) as lease:
    print("held", client.lock("outside", ttl=5).try_acquire(), flush=True)
    sys.stdin.readline()
    lease.ensure_held()
    print("still held", flush=True)
"""


def test_a_container_with_another_boot_clock_shares_the_locks(url: str) -> None:
    pipe = subprocess.PIPE
    apart = ["unshare", "--time", "--boottime", "100000", "--fork"]
    with (
        lockfast.connect(url) as client,
        client.lock("outside", ttl=60),
        subprocess.Popen(
            [*apart, sys.executable, "-c", IN_ANOTHER_TIME, url],
            stdin=pipe,
            stdout=pipe,
            text=True,
        ) as there,
    ):
        assert there.stdin is not None
        assert there.stdout is not None
        assert there.stdout.readline() == "held None\n"
        assert client.lock("x", ttl=5).try_acquire() is None
        (holder,) = client.lock("x").holders()
        assert holder.left <= 5.0
        there.stdin.write("go\n")
        there.stdin.flush()
        assert there.stdout.readline() == "still held\n"
        client.lock("x", ttl=5).acquire(timeout=5).release()


def test_tokens_go_on_though_the_wall_clock_goes_back(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lockfast.connect(url) as client:
        first = client.lock("x").acquire()
        first.release()
        monkeypatch.setattr(time, "time_ns", lambda: 10**15)
        second = client.lock("x").acquire()
        assert second.token == first.token + 1
        second.release()


RESTARTED = """
UPDATE host SET seen = seen + 86400000000;
UPDATE claim SET expires = expires + 86400000000;
"""


def test_after_a_restart_of_the_host_a_lock_stays_taken_for_one_ttl_at_most(url: str) -> None:
    """The clock of the new boot is a day behind that of the old one. Tokens go on."""
    code = "import sys, lockfast; print(lockfast.connect(sys.argv[1]).lock('x', ttl=2).acquire()"
    ran = subprocess.run(
        [sys.executable, "-c", f"{code}.token, flush=True); import os; os._exit(0)", url],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    with closing(sqlite3.connect(path_of(url))) as connection:
        connection.executescript(RESTARTED)
    with lockfast.connect(url) as client:
        (holder,) = client.lock("x").holders()
        assert holder.left <= 2.0
        began = time.monotonic()
        lease = client.lock("x", ttl=2).acquire(timeout=5)
        assert 0.5 < time.monotonic() - began < 4.0
        assert lease.token > int(ran.stdout)
        lease.release()


IN_A_CONTAINER = """
mount --bind {fake} /proc/sys/kernel/random/boot_id && exec "$@"
"""


def test_a_container_with_another_boot_id_shares_the_locks(url: str, tmp_path: Path) -> None:
    """As LXC and systemd-nspawn make it."""
    fake = tmp_path / "boot_id"
    fake.write_text("00000000-0000-4000-8000-000000000000\n", "ascii")
    code = "import sys, lockfast; print(lockfast.connect(sys.argv[1]).lock('x').try_acquire())"
    mount = IN_A_CONTAINER.format(fake=fake)
    with lockfast.connect(url) as client, client.lock("x", ttl=30) as lease:
        ran = subprocess.run(
            ["unshare", "-m", "sh", "-c", mount, "-", sys.executable, "-c", code, url],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.stdout == "None\n", ran.stderr
        lease.ensure_held()


# --- interruptions ------------------------------------------------------------------------------


def test_a_signal_handler_in_the_middle_of_a_transaction_hangs_nobody(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    took: list[float] = []
    with lockfast.connect(url) as client:
        kept = client.lock("kept", ttl=60).acquire()

        def handle(_signal: int, _frame: FrameType | None) -> None:
            try:
                client.lock("y", ttl=60).try_acquire()
            except EngineUnavailable as error:
                said.append(str(error))
            began = time.monotonic()
            kept.release()
            took.append(time.monotonic() - began)

        note = claims.Claims._sweep

        def interrupted(self: claims.Claims, transaction: object) -> None:
            os.kill(os.getpid(), signal.SIGUSR1)
            note(self, transaction)  # type: ignore[arg-type]

        before = signal.signal(signal.SIGUSR1, handle)
        try:
            with monkeypatch.context() as patch:
                patch.setattr(claims.Claims, "_sweep", interrupted)
                lease = client.lock("x", ttl=60).acquire(timeout=5)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert "signal handler" in said[0]
        assert len(said) == 1
        assert took[0] < 1.0
        assert client.lock("kept").holders() == []
        lease.release()
        assert client.lock("x").holders() == []


# --- closing ------------------------------------------------------------------------------------


def test_closing_takes_no_time_and_ends_the_thread(url: str) -> None:
    async def play() -> float:
        client = aio.connect(url)
        await (await client.lock("x").acquire()).release()
        assert any(each.name == "lockfast-sqlite" for each in threading.enumerate())
        began = time.monotonic()
        await client.close()
        return time.monotonic() - began

    assert asyncio.run(play()) < 0.4
    wait_until(
        lambda: all(each.name != "lockfast-sqlite" for each in threading.enumerate()),
        "the thread has ended",
        5,
    )


# --- listening ----------------------------------------------------------------------------------


def test_a_client_without_waiters_does_not_look(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[float] = []
    look = Listener.look

    def counted(self: Listener, store: object) -> bool:
        looks.append(time.monotonic())
        return look(self, store)  # type: ignore[arg-type]

    monkeypatch.setattr(Listener, "look", counted)
    with lockfast.connect(url) as client, lockfast.connect(url) as other:
        lease = client.lock("x", ttl=60).acquire()
        time.sleep(0.2)
        assert looks == []
        with pytest.raises(lockfast.NotAcquired):
            other.lock("x", ttl=60).acquire(timeout=0.5)
        assert 50 < len(looks) < 600
        time.sleep(0.1)
        looks.clear()
        time.sleep(0.2)
        assert looks == []
        lease.release()


GEVENT = """
from gevent import monkey; monkey.patch_all()
import gevent, time, sys
import lockfast
url = sys.argv[1]
with lockfast.connect(url) as client, lockfast.connect(url) as other:
    with client.lock("x", ttl=2):
        ticks = []
        def tick():
            while True:
                gevent.sleep(0.1)
                ticks.append(time.monotonic())
        ticking = gevent.spawn(tick)
        began = time.monotonic()
        try:
            other.lock("x", ttl=2).acquire(timeout=3)
        except lockfast.NotAcquired:
            print("in vain", round(time.monotonic() - began))
        print("ticks", len(ticks) > 15)
        waiting = gevent.spawn(lambda: other.lock("x", ttl=2).acquire(timeout=10))
        gevent.sleep(0.3)
    waiting.get(timeout=5).release()
    ticking.kill()
print("done")
"""


def test_a_wait_under_gevent_keeps_its_deadline_and_stops_nobody(url: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", GEVENT, url], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.stdout.split("\n") == ["in vain 3", "ticks True", "done", ""], ran.stderr


# --- long queues --------------------------------------------------------------------------------

FEW, MANY = 20, 2000
FAR = 2.0**40


def asked(kind: Kind, number: int, *, queue: bool = True) -> Ask:
    shape = Shape("long", 600.0, kind, 1 if kind is Kind.LOCK else 2 * MANY)
    return Ask(f"{number:032x}", shape, queue, FAR, b"")


def steps(engine: SqliteEngine, kind: Kind, size: int) -> dict[str, int]:
    """Count the steps of SQLite's virtual machine that each operation takes in a long queue."""
    count = [0]

    def one() -> int:
        count[0] += 1
        return 0

    connection = engine._store._connection
    assert connection is not None
    connection.set_progress_handler(one, 1)

    def cost() -> int:
        spent, count[0] = count[0], 0
        return spent

    found = {}
    last, middle = asked(kind, size + 1), asked(kind, size // 2)
    (standing,) = drive(engine.claim_all([last], FAR))
    assert isinstance(standing, Standing)
    assert standing.ahead == size
    found["claim"] = cost()
    drive(engine.renew([last], FAR))
    found["renew the last"] = cost()
    drive(engine.renew([asked(kind, 1)], FAR))
    found["renew the first"] = cost()
    drive(engine.renew([asked(kind, 2)], FAR))
    found["renew the second"] = cost()
    drive(engine.resign([middle], FAR, doubt=False))
    found["resign"] = cost()
    drive(engine.resign([asked(kind, 1)], FAR, doubt=False))
    found["resign the first"] = cost()
    drive(engine.claim_all([asked(kind, size + 2, queue=False)], FAR))
    found["try"] = cost()
    connection.set_progress_handler(None, 0)
    return found


@pytest.mark.parametrize("kind", [Kind.LOCK, Kind.SEMAPHORE])
def test_an_operation_costs_the_same_in_a_long_queue(tmp_path: Path, kind: Kind) -> None:
    costs = []
    for size in (FEW, MANY):
        url = f"sqlite:///{tmp_path}/{size}.db"
        with lockfast.connect(url) as client:
            client.lock("warm").acquire().release()
            engine = client._session.engine
            assert isinstance(engine, SqliteEngine)
            # One by one, so that each has a place; without the heart, which has no part in this.
            drive(engine.claim_all([asked(kind, n) for n in range(1, size + 1)], FAR))
            costs.append(steps(engine, kind, size))
    few, many = costs
    for operation, spent in many.items():
        # At most a hundred claims ahead are counted, at about ten steps each.
        assert spent < 2 * few[operation] + 1500, (operation, few[operation], spent)
