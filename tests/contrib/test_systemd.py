"""The systemd unit starts, reloads and ends the service."""

from __future__ import annotations

import shlex
from collections import defaultdict

import pytest

from lockfast.cli.exit_codes import Code
from tests.cli.run.program import Program
from tests.contrib.ending import LONGEST
from tests.docs.page import ROOT
from tests.servers import free_port

PATH = ROOT / "contrib" / "systemd" / "lockfast@.service"


def entries() -> dict[str, list[str]]:
    found = defaultdict(list)
    for line in PATH.read_text("utf-8").splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found[key].append(value)
    return found


UNIT = entries()


def test_it_has_time_to_drain() -> None:
    (seconds,) = UNIT["TimeoutStopSec"]
    assert int(seconds) >= LONGEST + 10


def test_a_wrong_configuration_is_not_tried_again() -> None:
    (codes,) = UNIT["RestartPreventExitStatus"]
    assert codes.split() == [str(int(Code.USAGE)), str(int(Code.CONFIGURATION))]


def test_a_reload_is_the_signal_that_the_service_knows() -> None:
    assert UNIT["ExecReload"] == ["/bin/kill -HUP $MAINPID"]


@pytest.mark.parametrize("entry", ["ExecStartPre", "ExecStart"])
def test_its_commands_are_those_of_this_version(entry: str, tmp_path: object) -> None:
    (command,) = UNIT[entry]
    _, verb, option, path, *rest = shlex.split(command.replace("%i", str(free_port())))
    assert (verb, option, path) == ("serve", "--config", "/etc/lockfast/lockfast.toml")
    config = f"{tmp_path}/lockfast.toml"
    with open(config, "w", encoding="utf-8") as file:  # noqa: PTH123  # the fixture's path
        file.write('url = "memory://"\n')
    with Program(None, verb, option, config, *rest) as program:
        if entry == "ExecStart":
            program.says("serving")
        else:
            assert program.wait() == 0


def test_nothing_is_writable_and_no_right_is_left() -> None:
    assert UNIT["ProtectSystem"] == ["strict"]
    assert UNIT["NoNewPrivileges"] == ["yes"]
    assert UNIT["CapabilityBoundingSet"] == [""]
    assert UNIT["User"] == ["lockfast"]
