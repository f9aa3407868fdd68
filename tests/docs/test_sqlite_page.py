"""What the page on SQLite says about files and tokens is what the engine does."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE

import pytest

import lockfast
from lockfast.engines.sqlite.database_file import LOCAL

PAGE = (Path(__file__).parents[2] / "docs" / "engines" / "sqlite.md").read_text("utf-8")
SHORT = {"nilfs": "nilfs2"}


def test_the_page_lists_the_filesystems_that_are_accepted() -> None:
    (said,) = re.findall(r"knows to be local \(([^)]*)\)", PAGE)
    listed = said.lower().replace("ext2 to ext4", "ext2, ext3, ext4").split(", ")
    assert {SHORT.get(each, each) for each in listed} == LOCAL


def test_the_token_base_lifts_every_new_token(tmp_path: Path) -> None:
    base, url = 2_000_000_000_000_000, f"sqlite:///{tmp_path}/locks.db"
    with lockfast.connect(url) as client, client.lock("x") as lease:
        before = lease.token
    with lockfast.connect(f"{url}?token_base={base}") as client, client.lock("x") as lease:
        moved = lease.token
    with lockfast.connect(url) as client, client.lock("x") as lease:
        after = lease.token  # a client that was forgotten in the move mints no lower token
    assert moved >= before + base
    assert after > moved


def test_tokens_go_on_after_the_file_was_deleted(tmp_path: Path) -> None:
    path = tmp_path / "locks.db"
    tokens = []
    for _ in range(3):
        with lockfast.connect(f"sqlite:///{path}") as client, client.lock("x") as lease:
            tokens.append(lease.token)
        path.unlink()
    assert tokens == sorted(set(tokens))


GROUP = "65533"
AS_A_MEMBER = f"""
import os, sys
import lockfast
with lockfast.connect(sys.argv[2]) as client:  # imports all, while this process may read it
    client.lock("x").acquire().release()
os.setgroups([{GROUP}]); os.setgid(int(sys.argv[3])); os.setuid(int(sys.argv[3]))
with lockfast.connect(sys.argv[1]) as client, client.lock(sys.argv[3], timeout=5):
    print("granted", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def shared() -> Iterator[Path]:
    """Give a path for a folder that other users may reach: pytest's own are private."""
    folder = Path(f"/tmp/lockfast-members-{os.getpid()}")  # noqa: S108  # removed below
    yield folder
    shutil.rmtree(folder)


def test_two_users_of_a_group_share_a_file_that_was_made_as_the_page_says(
    shared: Path, tmp_path: Path
) -> None:
    commands = re.findall(r"^\$ (install .*)$", PAGE, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        line = command.replace("/var/lib/locks", str(shared)).replace("workers", GROUP)
        subprocess.run(shlex.split(line), check=True, timeout=10)
    url = f"sqlite:///{shared}/locks.db"
    # Each user is once the first to open the file, and creates the two files beside it.
    for users in [("65531", "65532"), ("65532", "65531")]:
        with ExitStack() as stack:
            for user in users:
                argv = [AS_A_MEMBER, url, f"sqlite:///{tmp_path}/{user}.db", user]
                process = stack.enter_context(
                    subprocess.Popen([sys.executable, "-c", *argv], stdin=PIPE, stdout=PIPE)
                )
                assert process.stdout is not None
                assert process.stdout.readline() == b"granted\n"  # or the end, if it failed
