"""The page of locks over HTTP: its commands work, and its tables are complete."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from lockfast.core.validity import DRIFT
from lockfast.engines.remote.messages import AT_ONCE
from lockfast.service import keep_alive
from lockfast.service.config_file import MOST_HANDLE_KEYS, SHORTEST_KEY
from lockfast.service.http import body, polls, release
from lockfast.service.http.messages import (
    LARGEST_BODY,
    LONGEST_KEY,
    LONGEST_POLL,
    LONGEST_PURPOSE,
    Acquire,
)
from lockfast.service.http.routes import OPENAPI, ROUTES, WRONG
from tests.docs.page import ROOT, read
from tests.docs.tutorial import matches
from tests.servers import Redis, Replica

PATH = ROOT / "docs" / "service" / "http.md"
PAGE = PATH.read_text("utf-8")


def rows(title: str) -> list[str]:
    """Return the first column of the tables of a section."""
    section = PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| ([^|]*?) \|", section, re.MULTILINE)


def test_the_commands_print_what_the_page_says(tmp_path: Path) -> None:
    with Redis() as redis, Replica(redis.url) as replica:
        count = 0
        for command, printed in read(PATH).steps:
            if not command.startswith("curl "):
                continue
            count += 1
            done = subprocess.run(
                ["bash", "-c", command.replace("7420", str(replica.port))],
                cwd=tmp_path,
                capture_output=True,
                text=True,
                timeout=30,
                check=True,
            )
            assert matches(done.stdout.splitlines(), printed), done.stdout
        assert count == 6


def test_the_four_steps_take_four_lines() -> None:
    first = [step.command for step in read(PATH).steps if step.command.startswith("curl ")][:4]
    paths = [re.search(r"/v1/(\w+)", command) for command in first]
    assert [found and found[1] for found in paths] == ["acquire", "renew", "locks", "release"]


def test_the_table_of_requests_has_each_of_them() -> None:
    named = set(re.findall(r"`(\w+ /\S+)`", " ".join(rows("Requests"))))
    assert named == {*(f"{route.method} {route.path}" for route in ROUTES), f"GET {OPENAPI}"}


def test_the_table_of_fields_has_each_of_them() -> None:
    fields = {row.strip("`") for row in rows("Requests")}
    assert set(Acquire.__struct_fields__) <= fields


def test_the_table_of_statuses_has_each_of_them() -> None:
    named = {int(each) for each in re.findall(r"\b\d{3}\b", " ".join(rows("Statuses")))}
    assert named == {*WRONG, *(status for route in ROUTES for status in route.replies), 404, 405}


@pytest.mark.parametrize(
    "said",
    [
        f"up to {LONGEST_POLL:.0f} seconds",
        f"up to {AT_ONCE}",
        f"1 to {LONGEST_KEY} visible characters",
        f"at most {LONGEST_PURPOSE} characters",
        f"{LARGEST_BODY // 1024} KiB, within {body.LIMIT:.0f} seconds",
        f"{keep_alive.LIMIT:.0f} seconds, and {keep_alive.MOST:,} connections",
        f"reads nothing of a reply | {keep_alive.STUCK:.0f} seconds",
        f"| {polls.MOST:,}. Those beyond",
        f"with {SHORTEST_KEY} characters or more",
        f"a margin of {DRIFT:.0%}".replace("%", " %"),
    ],
)
def test_the_limits_are_those_of_the_code(said: str) -> None:
    assert said in PAGE


def test_a_released_key_is_remembered_for_as_long_as_it_says() -> None:
    assert release.REMEMBERED == 600.0
    assert "answers 410 for ten minutes" in PAGE
    assert MOST_HANDLE_KEYS == 4
    assert "up to four" in PAGE
