"""SQLite and forks: no child uses its parent's connection, and each keeps its own locks."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

import lockfast


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/locks.db"


def path_of(url: str) -> str:
    return url.removeprefix("sqlite:///")


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
import _imp, ctypes, os, sys
import lockfast
client = lockfast.connect(sys.argv[1])
client.lock("x", ttl=60).acquire().release()
_imp.acquire_lock()  # Python 3.13 ends a child that releases what nobody had acquired
child = ctypes.PyDLL(None).fork()  # as uWSGI does, which tells Python only afterwards
if not child:
    ctypes.pythonapi.PyOS_AfterFork_Child()
    try:
        client.lock("x", ttl=60).acquire(timeout=2)
    except lockfast.EngineRefused as error:
        print(error, flush=True)
    os._exit(0)
_imp.release_lock()
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


AT_ONCE = """
import concurrent.futures.thread, logging, os, sys, threading  # they lock around a fork too
here, go = threading.Event(), threading.Event()
def pause():
    if threading.current_thread().name == "first":
        here.set()
        go.wait(20)
os.register_at_fork(after_in_parent=pause)  # it is called before what is registered later
import lockfast
from lockfast.engines.sqlite import store
store.FORKING = 0.2
def fork():
    child = os.fork()
    if not child:
        os._exit(0)
    os.waitpid(child, 0)
client = lockfast.connect(sys.argv[1])
client.lock("x", ttl=60).acquire().release()
first = threading.Thread(target=fork, name="first")
first.start()
here.wait(20)  # the first one has closed the connection, and its fork is not over
second = threading.Thread(target=fork)
second.start()
second.join()
user = threading.Thread(target=lambda: client.lock("x", ttl=60).acquire().release())
user.start()
user.join(0.5)
print("waits" if user.is_alive() else "opened the file within a fork", flush=True)
go.set()
first.join()
user.join()
print("went on", flush=True)
"""


def test_a_thread_that_forks_beside_another_does_not_end_the_others_fork(url: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", AT_ONCE, url],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert ran.stdout == "waits\nwent on\n", ran.stderr
    assert ran.stderr == ""
