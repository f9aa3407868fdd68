"""Many acquisitions by several processes of two versions: no two of them work at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.migration.page import programs
from tests.migration.peers import Peer

ROUNDS = 15
# The work is to make a file that must not exist, and to remove it.
LOOP = """
import os, sys, time

def work(*said):
    try:
        os.close(os.open({mark!r}, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        sys.stdout.write("another one works too\\n")
        return
    time.sleep(0.005)
    os.unlink({mark!r})
    sys.stdout.write("alone\\n")

for _ in range({rounds}):
    exec({program!r}, {{"print": work}})
"""


@pytest.mark.parametrize(
    "pair", [("Before", "Deploy 1"), ("Deploy 1", "After")], ids=["deploy 1", "deploy 2"]
)
def test_four_processes_of_two_versions_work_one_at_a_time(
    peer: Peer, pair: tuple[str, str], tmp_path: Path
) -> None:
    code = programs(peer.page, peer.swaps)
    mark = str(tmp_path / "mark")
    said, errors = tmp_path / "said", tmp_path / "errors"
    with said.open("a") as out, errors.open("a") as err:
        crowd = [
            subprocess.Popen(
                [
                    *(sys.executable, "-c"),
                    LOOP.format(mark=mark, rounds=ROUNDS, program=code[version]),
                ],
                env={**os.environ, **peer.env},
                stdout=out,
                stderr=err,
            )
            for version in pair * 2
        ]
        try:
            codes = [each.wait(100) for each in crowd]
        finally:
            for each in crowd:
                each.kill()
                each.wait()
    assert codes == [0] * 4, errors.read_text("utf-8")
    assert said.read_text("utf-8").splitlines() == ["alone"] * 4 * ROUNDS
