"""What the page on SQLite says about files and tokens is what the engine does."""

from __future__ import annotations

import re
from pathlib import Path

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
