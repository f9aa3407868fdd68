"""The guard of a file: what it refuses, what a reader sees, and what is on the disk when."""

from __future__ import annotations

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

import lockfast
from lockfast import Loss, StaleToken, aio
from lockfast.guards.files import AsyncFileGuard, FileGuard, MarkFolder, local
from lockfast.guards.mark import Mark
from tests.guards.holders import Driven, permit, reader, two_holders, writer
from tests.guards.resources.files import AsyncFileRegister, FileRegister
from tests.guards.story import Resource, corrupted, refused
from tests.servers import Redis
from tests.traps.modes import Loop

A, B = "a" * 32, "b" * 32


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.json"


@pytest.fixture(params=["threads", "asyncio"])
def guard(request: pytest.FixtureRequest, path: Path) -> Iterator[FileGuard]:
    if request.param == "threads":
        yield FileGuard(path)
        return
    with Loop() as loop:
        yield cast("FileGuard", Driven(loop, AsyncFileGuard(path)))


def test_a_stale_write_is_refused_and_the_lease_is_lost(guard: FileGuard, path: Path) -> None:
    with two_holders("x") as (stale, fresh):
        guard.write(stale, b"first")
        guard.write(fresh, b"second")
        with pytest.raises(StaleToken, match=f"already seen token {fresh.token}"):
            guard.write(stale, b"third")
        assert path.read_bytes() == b"second"
        assert stale.loss is Loss.FENCED
        fresh.ensure_held()


def test_a_seal_refuses_the_stale_write_that_comes_between_a_read_and_the_first_write(
    guard: FileGuard, path: Path
) -> None:
    path.write_bytes(b"10")
    with two_holders("x") as (stale, fresh):
        guard.seal(fresh)
        read = int(path.read_bytes())
        with pytest.raises(StaleToken):
            guard.write(stale, b"15")
        guard.write(fresh, b"%d" % (read + 1))
        guard.write(fresh, b"%d" % (read + 2))
    assert path.read_bytes() == b"12"


def test_two_equal_tokens_of_two_claims_the_first_shown_stands(
    guard: FileGuard, path: Path
) -> None:
    guard.write(writer(7, A), b"a")
    with pytest.raises(StaleToken):
        guard.write(writer(7, B), b"b")
    assert path.read_bytes() == b"a"


def test_the_mark_stays_when_the_file_goes(guard: FileGuard, path: Path) -> None:
    guard.write(writer(7), b"v")
    guard.remove(writer(7))
    guard.remove(writer(7))
    assert not path.exists()
    with pytest.raises(StaleToken):
        guard.write(writer(6), b"stale")
    assert not path.exists()


def test_a_file_that_was_made_beside_is_moved_into_place_or_left_where_it_is(
    guard: FileGuard, path: Path
) -> None:
    made = path.with_name("made")
    made.write_bytes(b"big")
    guard.replace(writer(7), made)
    assert path.read_bytes() == b"big"
    made.write_bytes(b"stale")
    with pytest.raises(StaleToken):
        guard.replace(writer(6), made)
    assert path.read_bytes() == b"big"
    assert made.exists()


def test_a_reader_never_raises_the_mark_above_its_floor(guard: FileGuard) -> None:
    with lockfast.connect("memory://file readers") as engine:
        first, second = reader(engine, "x"), reader(engine, "x")
        guard.seal(second)
        guard.seal(first)
        with pytest.raises(StaleToken):
            guard.write(writer(first.ticket - 1), b"stale")


def test_a_permit_cannot_be_fenced(guard: FileGuard, path: Path) -> None:
    with (
        lockfast.connect("memory://file permits") as engine,
        permit(engine, "x") as lease,
        pytest.raises(TypeError, match="several can be held at once"),
    ):
        guard.write(lease, b"v")
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize("text", ["", "7", '{"token": "7"}', '{"token": "1e15", "id": ""}'])
def test_a_garbled_mark_closes_the_door(guard: FileGuard, path: Path, text: str) -> None:
    path.with_name("data.json.mark").write_text(text, "utf-8")
    with pytest.raises(ValueError, match="not a mark of lockfast: nothing was written"):
        guard.write(writer(7), b"v")
    assert not path.exists()


def test_the_token_of_another_lock_is_refused_as_a_mistake(guard: FileGuard) -> None:
    guard.write(writer(7, name="x"), b"v")
    with pytest.raises(ValueError, match="belongs to the lock 'x', not 'y'"):
        guard.write(writer(8, name="y"), b"w")


def test_the_files_mode_stays_and_nothing_else_is_left_behind(guard: FileGuard, path: Path) -> None:
    path.write_bytes(b"")
    path.chmod(0o640)
    guard.write(writer(7), b"v")
    with pytest.raises(StaleToken):
        guard.write(writer(6), b"v")
    assert path.stat().st_mode & 0o777 == 0o640
    left = {each.name for each in path.parent.iterdir()}
    assert left == {"data.json", "data.json.mark", "data.json.lock"}


def test_a_symbolic_link_stays_one(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    FileGuard(link).write(writer(7), b"v")
    assert link.is_symlink()
    assert path.read_bytes() == b"v"
    with pytest.raises(StaleToken):
        FileGuard(path).write(writer(6), b"stale")


def test_a_writer_that_is_paused_in_the_middle_is_waited_for_and_named(path: Path) -> None:
    FileGuard(path).seal(writer(6))
    with path.with_name("data.json.lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError, match=r"may be paused\. Nothing was written"):
            FileGuard(path, timeout=0.05).write(writer(7), b"v")
    FileGuard(path, timeout=0.05).write(writer(7), b"v")


def test_the_mark_is_on_the_disk_before_the_data_gets_its_name(path: Path) -> None:
    program = (
        "import sys; from tests.guards.holders import writer;"
        "from lockfast.guards.files import FileGuard;"
        "FileGuard(sys.argv[1]).write(writer(7), b'v')"
    )
    trace = path.with_name("trace")
    calls = "trace=fsync,fdatasync,rename,renameat,renameat2,flock"
    argv = ["strace", "-f", "-y", "-o", str(trace), "-e", calls, sys.executable, "-c", program]
    subprocess.run([*argv, str(path)], check=True, cwd=Path(__file__).parents[2])
    seen = []
    for line in trace.read_text("utf-8").splitlines():
        call = line.split(maxsplit=1)[1]
        if call.startswith("flock"):
            seen.append("unlock" if "LOCK_UN" in call else "lock")
        elif call.startswith("rename"):
            seen.append("name mark" if f'{path}.mark"' in call else "name data")
        elif call.startswith("fsync"):
            seen.append("sync folder" if f"<{path.parent}>" in call else "sync file")
    assert seen == [
        "sync file",
        "lock",
        "sync file",
        "name mark",
        "sync folder",
        "name data",
        "sync folder",
        "unlock",
    ]


def test_many_processes_that_write_at_once_leave_the_highest_token(path: Path) -> None:
    program = (
        "import sys; from lockfast import StaleToken; from tests.guards.holders import writer;"
        "from lockfast.guards.files import FileGuard\n"
        "for token in range(int(sys.argv[2]), 200, 4):\n"
        "    try: FileGuard(sys.argv[1]).write(writer(token), b'%d' % token)\n"
        "    except StaleToken: pass\n"
    )
    argv = [sys.executable, "-c", program, str(path)]
    root = Path(__file__).parents[2]
    writers = [subprocess.Popen([*argv, str(n)], cwd=root) for n in range(1, 5)]
    assert [each.wait() for each in writers] == [0] * 4
    assert path.read_bytes() == b"199"


def test_in_asyncio_the_refused_holder_is_told_in_its_loop(path: Path) -> None:
    async def work() -> None:
        async with aio.connect("memory://loop") as engine, engine.lock("x") as lease:
            guard = AsyncFileGuard(path)
            await guard.seal(writer(lease.token + 1))
            with pytest.raises(StaleToken):
                await guard.write(lease, b"v")
            await asyncio.sleep(30)

    with pytest.raises(lockfast.LeaseLost):
        asyncio.run(work(), debug=True)  # in which a future set from another thread is an error


def test_marks_in_a_folder_survive_and_are_each_their_own(tmp_path: Path) -> None:
    names = ["a/b", "a\0b", "..", "ü" * 256]
    folder = MarkFolder(tmp_path / "marks")
    for number, name in enumerate(names):
        folder[name] = Mark(2**53 + number, A)
    with pytest.raises(RuntimeError, match="in use by another process"):
        MarkFolder(tmp_path / "marks")
    folder.close()
    again = MarkFolder(tmp_path / "marks")
    assert dict(again) == {name: Mark(2**53 + n, A) for n, name in enumerate(names)}
    assert again.get("other") is None
    del again["a/b"]
    assert len(again) == 3
    child = os.fork()
    if not child:
        try:
            again.get("..")
        except RuntimeError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    again.close()


@contextmanager
def forked() -> Iterator[None]:
    """Have a child that outlives what its parent does meanwhile."""
    child = os.fork()
    if not child:
        time.sleep(60)
        os._exit(0)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def test_deleting_a_mark_that_is_not_there_is_a_key_error(tmp_path: Path) -> None:
    marks = MarkFolder(tmp_path)
    with pytest.raises(KeyError, match="missing"):
        del marks["missing"]
    assert marks.pop("missing", None) is None
    marks.close()


def test_a_child_that_was_forked_during_a_write_does_not_keep_the_file_locked(path: Path) -> None:
    """A worker of multiprocessing had the flock for as long as it lived."""
    guard = FileGuard(path, timeout=0.5)
    inside, go_on = threading.Event(), threading.Event()

    def slowly() -> None:
        inside.set()
        go_on.wait(10.0)

    thread = threading.Thread(target=guard._apply, args=(writer(5), slowly))
    thread.start()
    assert inside.wait(10.0)
    with forked():
        go_on.set()
        thread.join()
        guard.write(writer(6), b"next")


def test_a_child_does_not_keep_a_folder_of_marks(tmp_path: Path) -> None:
    folder = MarkFolder(tmp_path / "marks")
    with forked():
        wait = time.monotonic() + 10.0
        folder.close()
        while True:
            try:
                MarkFolder(tmp_path / "marks").close()
            except RuntimeError:  # the child has not come to its first line yet
                assert time.monotonic() < wait
                time.sleep(0.01)
            else:
                break


@pytest.mark.parametrize("register", [FileRegister, AsyncFileRegister])
def test_a_holder_that_was_paused_past_its_lease_is_refused(
    path: Path, register: type[Resource]
) -> None:
    with Redis() as engine:
        refused(engine.url, register, str(path))


def test_without_the_guard_the_paused_holder_overwrites_its_successor(path: Path) -> None:
    with Redis() as engine:
        corrupted(engine.url, FileRegister, str(path))


# --- who else is on the machine -----------------------------------------------------------------


@pytest.fixture
def umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644])
def test_the_content_of_a_secret_file_is_never_in_one_that_others_may_read(
    path: Path, mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"old")
    path.chmod(mode)
    seen: list[int] = []
    real = os.fdopen

    def spied(descriptor: int, how: str) -> object:
        seen.append(os.fstat(descriptor).st_mode & 0o7777)  # before anything is written
        return real(descriptor, how)

    monkeypatch.setattr(os, "fdopen", spied)
    monkeypatch.setattr(os, "fsync", lambda _: seen.extend(_modes(path.parent, b"TOP SECRET")))
    FileGuard(path).write(writer(7), b"TOP SECRET")
    assert path.read_bytes() == b"TOP SECRET"
    assert path.stat().st_mode & 0o7777 == mode
    assert seen
    assert set(seen) <= {0o600, mode}


def _modes(folder: Path, content: bytes) -> list[int]:
    return [
        each.stat().st_mode & 0o7777 for each in folder.iterdir() if each.read_bytes() == content
    ]


@pytest.mark.usefixtures("umask")
def test_a_new_file_gets_the_mode_that_any_new_file_gets(path: Path) -> None:
    FileGuard(path).write(writer(7), b"v")
    assert path.stat().st_mode & 0o7777 == 0o644
    assert sorted(each.name for each in path.parent.iterdir()) == [
        "data.json",
        "data.json.lock",
        "data.json.mark",
    ]


@pytest.mark.usefixtures("umask")
@pytest.mark.parametrize(("folder", "mode"), [(0o755, 0o600), (0o775, 0o660), (0o700, 0o600)])
def test_only_who_may_write_in_the_folder_can_block_its_writers(
    path: Path, folder: int, mode: int
) -> None:
    path.parent.chmod(folder)
    lock = path.with_name("data.json.lock")
    lock.touch(0o644)  # as it was made once
    FileGuard(path).write(writer(7), b"v")
    assert lock.stat().st_mode & 0o7777 == mode
    assert path.with_name("data.json.mark").stat().st_mode & 0o7777 == mode


@pytest.mark.usefixtures("umask")
def test_a_folder_of_marks_is_closed_to_others(tmp_path: Path) -> None:
    folder = MarkFolder(tmp_path / "marks")
    folder["x"] = Mark(7, A)
    assert (tmp_path / "marks").stat().st_mode & 0o7777 == 0o700
    for each in (tmp_path / "marks").iterdir():
        assert each.stat().st_mode & 0o077 == 0
    folder.close()


def test_a_lock_that_is_a_symbolic_link_is_not_followed(path: Path, tmp_path: Path) -> None:
    path.with_name("data.json.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        FileGuard(path).write(writer(7), b"v")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("content", ["[" * 100_000, "7", '{"token": 1e999, "id": "", "name": "x"}'])
def test_a_mark_that_cannot_be_read_closes_the_door(path: Path, content: str) -> None:
    path.with_name("data.json.mark").write_text(content, "ascii")
    with pytest.raises(ValueError, match="not a mark of lockfast"):
        FileGuard(path).write(writer(7), b"v")
    assert not path.exists()


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "fuse.sshfs"])
def test_a_file_on_a_network_filesystem_is_not_guarded(
    guard: FileGuard, path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = path.parent.stat().st_dev
    mounts = path.with_name("mountinfo")
    mounts.write_text(
        "21 1 0:0 / /elsewhere rw - ext4 /dev/sda rw\n"
        f"22 1 {os.major(device)}:{os.minor(device)} / / rw shared:1 - {kind} host:/x rw\n",
        "ascii",
    )
    monkeypatch.setattr(local, "MOUNTS", mounts)
    local._kind.cache_clear()
    try:
        with pytest.raises(lockfast.Unguarded, match=f"network filesystem .{kind}"):
            guard.write(writer(7), b"v")
        with pytest.raises(lockfast.Unguarded, match=f"network filesystem .{kind}"):
            guard.seal(writer(7))
    finally:
        local._kind.cache_clear()
    assert [each.name for each in path.parent.iterdir()] == ["mountinfo"]


def test_a_file_of_this_machine_is_guarded_also_where_nobody_tells_what_it_is_on(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "MOUNTS", path.with_name("none"))
    local._kind.cache_clear()
    FileGuard(path).write(writer(7), b"v")
    local._kind.cache_clear()
