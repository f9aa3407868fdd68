"""Stolen time: what is recorded of a failed test, and how long CI waits for a quiet machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import stolen


def test_failures_are_added_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stolen, "FAILURES", tmp_path / "build" / "failures.txt")
    stolen.record("tests/a.py::test_one", 0.6)
    stolen.record("tests/a.py::test_two", 0.0)
    assert stolen.FAILURES.read_text("utf-8").splitlines() == [
        "tests/a.py::test_one (60% stolen)",
        "tests/a.py::test_two (0% stolen)",
    ]


def test_the_share_is_what_was_stolen_of_the_time_of_all_processors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now, taken = [100.0], [7.0]
    monkeypatch.setattr("tests.stolen.time.monotonic", lambda: now[0])
    monkeypatch.setattr(stolen, "seconds", lambda: taken[0])
    monkeypatch.setattr("tests.stolen.os.cpu_count", lambda: 2)
    watch = stolen.Watch()
    now[0], taken[0] = 110.0, 12.0
    assert watch.share() == pytest.approx(0.25)


class Machine:
    """A machine from which a share is stolen, until it is quiet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, quiet_after: float) -> None:
        self.now = self.taken = 0.0
        self._quiet = quiet_after
        monkeypatch.setenv("CI", "true")
        monkeypatch.setattr(stolen, "WAITED", tmp_path / "build" / "waited.txt")
        monkeypatch.setattr("tests.stolen.time.monotonic", lambda: self.now)
        monkeypatch.setattr("tests.stolen.time.sleep", self.pass_)
        monkeypatch.setattr(stolen, "seconds", lambda: self.taken)
        monkeypatch.setattr("tests.stolen.os.cpu_count", lambda: 1)

    def pass_(self, seconds: float) -> None:
        if self.now < self._quiet:
            self.taken += seconds * 0.6
        self.now += seconds

    def watch(self) -> stolen.Watch:
        watch = stolen.Watch()
        self.pass_(2.0)
        return watch


def test_ci_waits_until_the_machine_is_quiet(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, tmp_path, quiet_after=30.0)
    stolen.wait_quiet(machine.watch())
    assert machine.now == 32.0
    stolen.wait_quiet(machine.watch())
    assert machine.now == 34.0  # not again


def test_ci_waits_no_longer_than_its_budget(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine = Machine(monkeypatch, tmp_path, quiet_after=1e9)
    stolen.wait_quiet(machine.watch())
    assert machine.now == 2.0 + stolen.BUDGET
    stolen.wait_quiet(machine.watch())
    assert machine.now == 4.0 + stolen.BUDGET


def test_a_developer_does_not_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = Machine(monkeypatch, tmp_path, quiet_after=1e9)
    monkeypatch.delenv("CI")
    stolen.wait_quiet(machine.watch())
    assert machine.now == 2.0


def test_the_wait_is_not_counted_as_the_next_tests_time(pytestconfig: pytest.Config) -> None:
    """Our hook is outside of pytest-timeout's: of several wrappers, the last is called first."""
    hook = pytestconfig.pluginmanager.hook.pytest_runtest_protocol
    assert hook.get_hookimpls()[-1].plugin_name.endswith("tests/conftest.py")
