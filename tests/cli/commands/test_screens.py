"""What is to be seen at 80 columns: names first, and nothing beyond the edge."""

from __future__ import annotations

import re
import sys

import pytest
from rich.cells import cell_len

import lockfast
from lockfast.plain import plain
from tests.cli.commands.calls import LONG
from tests.cli.commands.screens import CLAIMS, SIZES, claim, drawn, names, path
from tests.cli.commands.terminal import Terminal


@pytest.mark.parametrize(("command", "which", "columns", "lines"), names())
def test_a_screen_is_as_it_was_looked_at(
    command: str, which: str, columns: int, lines: int
) -> None:
    """After a change on purpose: `python -m tests.cli.commands.screens`, and look at them."""
    said = drawn(command, CLAIMS[which](), columns, lines)
    assert said == path(command, which, columns, lines).read_text("utf-8")
    assert all(cell_len(line) <= columns for line in said.splitlines())
    assert said.replace("\n", "").isprintable()
    if command == "watch":
        assert said.count("\n") <= lines


@pytest.mark.parametrize("columns", [20, 40, 60, 80, 90, 100, 120, 160, 240])
@pytest.mark.parametrize("which", CLAIMS)
def test_ls_shows_every_name_whole_however_narrow_the_terminal(which: str, columns: int) -> None:
    said = drawn("ls", CLAIMS[which](), columns, 24)
    assert all(cell_len(line) <= columns for line in said.splitlines())
    first = "".join(line[:columns].split("  ")[0].strip() for line in said.splitlines()[3:])
    for each in CLAIMS[which]():
        assert plain(each.name).replace(" ", "") in first.replace(" ", "")


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_watch_shows_the_name_host_pid_and_age_of_a_holder(columns: int, lines: int) -> None:
    said = drawn("watch", CLAIMS["one"](), columns, lines)
    (row,) = [line for line in said.splitlines() if "invoice:42" in line]
    for word in ("invoice:42", "web-1.eu-west.i", "10001", "8 s"):
        assert word in row


@pytest.mark.parametrize("columns", [80, 120])
def test_watch_counts_the_names_that_it_has_no_room_for(columns: int) -> None:
    told = set()
    for number in range(1, 40):
        said = drawn("watch", [claim(f"order:{n:02}", n) for n in range(number)], columns, 24)
        told |= set(re.findall(r"^and (\d+ more \w+)$", said, re.MULTILINE))
    assert {"1 more name", "2 more names"} < told
    assert "1 more names" not in told


@pytest.mark.parametrize("command", ["ls", "watch"])
def test_a_real_terminal_of_80_columns_shows_the_name_and_the_pid(url: str, command: str) -> None:
    argv = [sys.executable, "-W", "error", "-m", "lockfast.cli", "--url", url, command]
    with lockfast.connect(url) as client:
        lease = client.lock("order:00042:customer-1234", ttl=LONG, purpose="nightly").acquire()
        with Terminal(argv, columns=80, lines=24) as terminal:
            shown = terminal.see("order:00042:customer-1234", "pid", "age")
            (row,) = [line for line in shown.splitlines() if "order:00042" in line]
            assert str(client.lock(lease.name).holders()[0].who.pid) in row
