"""What failed is run again once, and more often only while time was stolen."""

from pathlib import Path

import pytest

from tests import stolen, tries

FAILS = """
from pathlib import Path

def test_it():
    file = Path(__file__).with_suffix(".count")
    count = len(file.read_text()) if file.exists() else 0
    file.write_text("x" * (count + 1))
    if count < {times}:
        with Path({record!r}).open("a") as file:
            file.write("test_it ({share}% stolen)\\n")
        assert False

def test_another():
    with Path(__file__).with_suffix(".other").open("a") as file:
        file.write("x")
"""


@pytest.fixture(autouse=True)
def record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tries, "PAUSE", 0.0)
    # It starts pytest 25 times, and each start takes twice as long with all plugins.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin")
    monkeypatch.setattr(stolen, "FAILURES", tmp_path / "failures.txt")
    stolen.record("test_before", 0.01)


@pytest.mark.parametrize(
    ("times", "share", "beside", "expected"),
    [
        (0, 0, 0, (0, 1)),
        (1, 9, 0, (0, 2)),
        (2, 9, 0, (1, 2)),  # twice on a quiet machine: it has failed
        (1, 9, 1, (0, 2)),  # beside others
        (2, 9, 1, (1, 2)),
        (3, 50, 0, (0, 4)),
        (9, 50, 0, (1, tries.TRIES)),  # a bug
    ],
)
def test_a_failure_counts_unless_other_tests_or_a_thief_can_have_caused_it(
    times: int, share: int, beside: int, expected: tuple[int, int], tmp_path: Path
) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    file = folder / "test_it.py"
    file.write_text(FAILS.format(times=times, share=share, record=str(stolen.FAILURES)), "utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", "utf-8")
    crowd = ["-n", "1"] if beside else []
    status = tries.main([*crowd, "-q", "-c", str(folder / "pytest.ini"), str(folder)])
    assert len(file.with_suffix(".other").read_text("utf-8")) == 1  # what passed is not run again
    assert (status, len(file.with_suffix(".count").read_text("utf-8"))) == expected


def test_what_is_no_tests_failure_is_not_tried_again(tmp_path: Path) -> None:
    assert tries.main(["-q", str(tmp_path / "nowhere.py")]) == 4


def test_files_run_at_once_and_what_failed_in_each_is_run_again_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stolen, "BUILD", tmp_path / "build")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    files = []
    for name, times in (("one", 0), ("two", 1), ("three", 2)):
        file = tmp_path / f"test_{name}.py"
        file.write_text(FAILS.format(times=times, share=9, record=str(stolen.FAILURES)), "utf-8")
        files.append(file)
    given = [str(file) for file in files]
    assert tries.main(["-q", "-c", str(tmp_path / "pytest.ini"), "--each", *given]) == 1
    counts = [len(file.with_suffix(".count").read_text("utf-8")) for file in files]
    assert counts == [1, 2, 2]
    assert {len(file.with_suffix(".other").read_text("utf-8")) for file in files} == {1}


LOOP = """
import os
from pathlib import Path

def test_it():
    with Path(__file__).with_suffix(".loops").open("a") as file:
        file.write(os.environ.get("LOCKFAST_TEST_LOOP", "asyncio") + "\\n")
    assert os.environ.get("LOCKFAST_TEST_LOOP") == "uvloop"
"""


def test_two_command_lines_run_at_once_and_each_is_run_again_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stolen, "BUILD", tmp_path / "build")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", "utf-8")
    file = tmp_path / "test_it.py"
    file.write_text(LOOP, "utf-8")
    line = ["-q", "-c", str(tmp_path / "pytest.ini"), "--each", str(file)]
    assert tries.main(["--uvloop", *line, "--and", *line]) == 1
    loops = file.with_suffix(".loops").read_text("utf-8").split()
    assert sorted(loops) == ["asyncio", "asyncio", "uvloop"]  # the second line alone failed
