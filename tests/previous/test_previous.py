"""Clients of two versions on one engine: refused in words, or side by side, and never both."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness.history import Kind, Outcome, Record, gathered
from tests.robustness.run import Run
from tests.robustness.scenario import Scenario, load
from tests.robustness.sites import SITES

ENGINES = sorted(name for name, site in SITES.items() if site.engine == name)
NEWER = {"mysql"}  # engines that c0ff680 does not have
IN_CI = {"postgres", "redis"}
CHOSEN = [pytest.param(each, marks=[] if each in IN_CI else [pytest.mark.wide]) for each in ENGINES]
IN_WORDS = ("format", "use one kind of lock", "somebody else has written", "not one of ours")


def scenario(engine: str, previous: str) -> Scenario:
    """A short one, in which a worker of either version is killed and paused."""
    usual = load(engine)
    return Scenario(
        name=f"{engine}-{previous}",
        site=engine,
        why="two versions of lockfast use one engine",
        ttl=usual.ttl,
        seconds=2.0,
        each=1,
        faults=("kill-client", "pause-client"),
        workloads=usual.workloads,
        delta=60.0,
        counted=usual.counted,
        order=usual.order,
        previous=previous,
    )


def theirs(record: Record) -> bool:
    """Whether a record is of a worker of the other version: see `Run`."""
    return int(record.client.removeprefix("worker").partition(".")[0]) % 4 in {1, 2}


def acquisitions(folder: Path) -> list[Record]:
    return [record for record in gathered(folder / "history") if record.kind is Kind.ACQUIRE]


@pytest.mark.parametrize("engine", [each for each in CHOSEN if each.values[0] not in NEWER])
def test_c0ff680_and_this_version_refuse_each_other(engine: str, tmp_path: Path) -> None:
    result = Run(scenario(engine, "c0ff680"), 1, 2.0, tmp_path, say=print).run()
    # A leader of the one version may lead until the end, and those of the other are refused.
    wrong = [each for each in result["violations"] if each["checker"] != "recovers"]
    assert wrong == []
    tried = acquisitions(tmp_path)
    assert any(each.outcome is Outcome.OK and not theirs(each) for each in tried)
    refused = [each for each in tried if each.outcome is Outcome.NO and each.value != "busy"]
    assert any(word in each.value for each in refused for word in IN_WORDS), refused[-5:]


@pytest.mark.parametrize("engine", CHOSEN)
def test_a_version_with_a_further_field_works_beside_this_one(engine: str, tmp_path: Path) -> None:
    result = Run(scenario(engine, "further-field"), 1, 2.0, tmp_path, say=print).run()
    assert result["violations"] == []
    tried = acquisitions(tmp_path)
    for side in (True, False):
        assert sum(each.outcome is Outcome.OK and theirs(each) is side for each in tried) > 100
    assert not [each for each in tried if "format" in each.value]
