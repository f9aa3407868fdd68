"""The clocks of SQLite locks: containers, restarts of the host, and a wall clock that goes back."""

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


UNSHARED = """
import ctypes, os, sys
import lockfast
url = sys.argv[1]
before = lockfast.connect(url)
lease = before.lock("before", ttl=60).acquire()
assert ctypes.CDLL(None).unshare(0x80) == 0  # CLONE_NEWTIME
open("/proc/self/timens_offsets", "w").write("boottime 100000 0\\n")
try:
    lockfast.connect(url).lock("after").acquire(timeout=1)
except lockfast.EngineRefused as error:
    print(error, flush=True)
lease.ensure_held()
before.lock("before", ttl=60).holders()
child = os.fork()
if not child:  # its clock is ahead by 100000 s now
    with lockfast.connect(url) as client:
        print(client.lock("before", ttl=60).try_acquire(), flush=True)
        (holder,) = client.lock("before").holders()
        print(50 < holder.left <= 60, flush=True)
    print(before.lock("before", ttl=60).try_acquire(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
lease.release()
print("released")
"""


def test_a_process_that_made_a_time_namespace_for_its_children_is_refused(url: str) -> None:
    """It reads the children's offset, and could take a lock that is held for an expired one."""
    ran = subprocess.run(
        [sys.executable, "-c", UNSHARED, url],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said, *more = ran.stdout.splitlines()
    assert "unshare" in said, ran.stderr
    assert more == ["None", "True", "None", "released"], ran.stderr


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
