"""Files that cannot hold locks: of another application, on a network filesystem, without rights."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import lockfast
from lockfast import EngineRefused, EngineUnavailable
from lockfast.engines.sqlite import database_file
from lockfast.engines.sqlite.connection import LAYOUT


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "locks.db"


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def refused(path: Path) -> str:
    """Return why no lock can be taken in a file."""
    with lockfast.connect(url(path)) as client, pytest.raises(EngineRefused) as caught:
        client.lock("x").acquire(timeout=1)
    return str(caught.value)


def use(path: Path) -> int:
    with lockfast.connect(url(path)) as client, client.lock("x") as lease:
        return lease.token


def change(path: Path, sql: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(sql)


# --- whose file it is ---------------------------------------------------------------------------


def test_the_database_of_another_application_is_refused_and_left_alone(path: Path) -> None:
    change(path, "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)")
    before = path.read_bytes()
    assert "another application" in refused(path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_an_empty_file_becomes_a_database(path: Path) -> None:
    path.touch()
    assert use(path) > 0


def test_a_later_layout_is_refused_with_both_numbers_and_left_alone(path: Path) -> None:
    use(path)
    change(path, f"PRAGMA user_version = {LAYOUT + 1}")
    before = path.read_bytes()
    said = refused(path)
    assert f"layout {LAYOUT + 1}" in said
    assert f"layout {LAYOUT}:" in said
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"a letter to a friend, and not a database at all\n" * 100)
    before = path.read_bytes()
    assert "not a SQLite database" in refused(path)
    assert path.read_bytes() == before


def test_a_damaged_file_is_refused(path: Path) -> None:
    use(path)
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * 8 * 4096)
    assert "damaged" in refused(path)


def test_tables_that_were_changed_are_refused(path: Path) -> None:
    use(path)
    change(path, "DROP TABLE queue")
    assert "not as lockfast made them" in refused(path)


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE claim SET ticket = 'high'",
        "UPDATE claim SET ticket = 9007199254740992",
        "UPDATE claim SET expires = x'00'",
        "UPDATE claim SET payload = 'text', waits = 0",
        "UPDATE claim SET waits = 2",  # it neither waits nor is granted: the totals never fit
        "UPDATE queue SET held = 'much'",
        "UPDATE host SET last = 'x'",
        "DELETE FROM host",
    ],
)
def test_values_that_lockfast_never_writes_are_refused_in_words(path: Path, sql: str) -> None:
    with lockfast.connect(url(path)) as client, lockfast.connect(url(path)) as other:
        lease = client.lock("x", ttl=60).acquire()
        change(path, sql)
        with pytest.raises((EngineRefused, EngineUnavailable)):
            other.lock("x", ttl=60).acquire(timeout=0.5)
        del lease


# --- where it is --------------------------------------------------------------------------------


def test_a_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert "folder does not exist" in refused(tmp_path / "missing" / "locks.db")


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    assert "cannot be opened" in refused(tmp_path)


def test_a_filesystem_that_is_not_known_to_be_local_is_refused() -> None:
    said = refused(Path("/proc/locks.db"))
    assert "(proc)" in said
    assert "local disk" in said


MOUNTED = """21 1 254:0 / / rw - ext4 /dev/vda rw
{id} 21 0:50 / {point} rw,relatime shared:1 - {kind} server:/export rw
"""


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "9p", "virtiofs", "fuse.sshfs", "ceph"])
def test_network_filesystems_are_refused(
    path: Path, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mountinfo"
    id_ = database_file._mount_id(tmp_path, "")
    mounts.write_text(MOUNTED.format(id=id_, point="/mnt", kind=kind), "utf-8")
    monkeypatch.setattr(database_file, "MOUNTS", mounts)
    assert f"({kind})" in refused(path)


def test_a_file_that_is_mounted_by_itself_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `docker run -v /data/locks.db:/data/locks.db` does."""
    spaced = tmp_path / "a b"
    spaced.mkdir()
    mounts = tmp_path / "mountinfo"
    point = str(spaced / "locks.db").replace(" ", "\\040")
    mounts.write_text(MOUNTED.format(id=77, point=point, kind="ext4"), "utf-8")
    monkeypatch.setattr(database_file, "MOUNTS", mounts)
    assert "Mount its folder" in refused(spaced / "locks.db")


def test_a_file_with_a_second_name_is_refused(path: Path) -> None:
    use(path)
    path.with_name("other.db").hardlink_to(path)
    assert "hard links" in refused(path)


def test_a_symbolic_link_leads_to_the_same_locks(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    with lockfast.connect(url(path)) as client, lockfast.connect(url(link)) as other:
        lease = client.lock("x", ttl=60).acquire()
        assert other.lock("x", ttl=60).try_acquire() is None
        lease.release()


# --- rights and space ---------------------------------------------------------------------------

AS_NOBODY = """
import os, sys
import lockfast
with lockfast.connect(sys.argv[2]) as client:  # imports all, while this process may read it
    client.lock("x").acquire().release()
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    with lockfast.connect(sys.argv[1]) as client:
        client.lock("x").acquire(timeout=1).release()
except lockfast.LockfastError as error:
    print(type(error).__name__, error)
else:
    print("granted")
"""


def by_nobody(path: Path) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, url(path), url(path.with_name("first.db"))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.fixture
def shared() -> Iterator[Path]:
    """Give a folder that another user may enter: pytest's own are private."""
    folder = Path(f"/tmp/lockfast-rights-{os.getpid()}")  # noqa: S108  # removed below
    folder.mkdir()
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


BLOCKING = """
import fcntl, os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
try:
    file = open(sys.argv[1] + "-shm", "rb")
except PermissionError:
    print("may not", flush=True)
else:
    fcntl.lockf(file, fcntl.LOCK_SH, 1, 120)  # the byte by which SQLite admits one writer
    print("blocks", flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("mode", [None, 0o644])
def test_a_user_who_shares_no_locks_cannot_block_them(shared: Path, mode: int | None) -> None:
    """Unless somebody lets all users read the file, as SQLite itself would have."""
    path = shared / "locks.db"
    if mode is not None:
        path.touch(mode)
    before = os.umask(0)  # the user's own mask must not be what protects the file
    pipe = subprocess.PIPE
    try:
        with lockfast.connect(url(path)) as client:
            client.lock("x").acquire().release()
            modes = {each.stat().st_mode & 0o777 for each in shared.iterdir()}
            assert modes == {mode or 0o600}
            with subprocess.Popen(
                [sys.executable, "-c", BLOCKING, path], stdin=pipe, stdout=pipe, text=True
            ) as other:
                assert other.stdin is not None
                assert other.stdout is not None
                assert other.stdout.readline() == ("may not\n" if mode is None else "blocks\n")
                if mode is None:
                    client.lock("x").acquire(timeout=1).release()
                else:
                    with pytest.raises(EngineUnavailable, match="busy"):
                        client.lock("x").acquire(timeout=0.3)
                other.stdin.close()
    finally:
        os.umask(before)


def test_a_user_without_rights_is_told_which_ones_are_missing(shared: Path) -> None:
    path = shared / "locks.db"
    use(path)
    for said in (by_nobody(path), by_nobody(shared / "new.db")):
        assert said.startswith("EngineRefused")
        assert "-wal and -shm" in said
        assert "and the folder" in said


def test_two_users_share_locks_if_both_may_write_to_the_file_and_the_folder(shared: Path) -> None:
    path = shared / "locks.db"
    use(path)
    shared.chmod(0o777)
    path.chmod(0o666)
    assert by_nobody(path) == "granted\n"


ON_A_FULL_DISK = """
import os, sys
import lockfast
folder = sys.argv[1]
with lockfast.connect(f"sqlite:///{folder}/locks.db") as client:
    lease = client.lock("x", ttl=60).acquire()
    with open(f"{folder}/filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
    try:
        while True:
            client.lock("y", ttl=60).acquire(timeout=1).release()
    except lockfast.EngineRefused as error:
        print(error)
    os.remove(f"{folder}/filler")
    lease.release()
    client.lock("y", ttl=60).acquire(timeout=1).release()
print("well again")
"""


def test_a_full_disk_is_named_and_the_database_survives_it(tmp_path: Path) -> None:
    mount = f'mount -t tmpfs -o size=1m none {tmp_path} && exec "$@"'
    ran = subprocess.run(
        ["unshare", "-m", "sh", "-c", mount, "-", sys.executable, "-c", ON_A_FULL_DISK, tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    said, well, _ = ran.stdout.split("\n")
    assert "the disk is full" in said
    assert well == "well again"
