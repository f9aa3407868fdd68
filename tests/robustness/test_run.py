"""The harness itself: scenarios, one short run from end to end, the verdict and the figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.robustness.faults import FAULTS
from tests.robustness.figures import Figures
from tests.robustness.history import LAPSE, Kind, Outcome, Record
from tests.robustness.run import Run
from tests.robustness.scenario import Scenario, load, names
from tests.robustness.sites import SITES
from tests.robustness.sites.site import Lapse
from tests.robustness.traffic.clock import now
from tests.robustness.traffic.workloads import WORKLOADS
from tests.robustness.verdict import judge, unserved


@pytest.mark.parametrize("name", names())
def test_a_scenario_names_what_there_is(name: str) -> None:
    scenario = load(name)
    assert scenario.site in SITES
    assert scenario.why
    assert set(scenario.workloads) <= WORKLOADS.keys()
    assert len(scenario.workloads) <= scenario.hands
    assert {*scenario.faults, *SITES[scenario.site].kinds} <= FAULTS.keys()


def test_every_site_has_a_scenario() -> None:
    assert {load(name).site for name in names()} == SITES.keys()


def test_a_short_run_from_its_site_to_its_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SITES["redis"], "lapse", lambda _: Lapse(now(), "it lost a write"))
    scenario = Scenario(
        name="short",
        site="redis",
        why="it is short",
        ttl=1.0,
        seconds=0.0,
        each=1,
        workers=2,
        faults=("kill-client", "pause-client"),
        first=("pause-client",),
        delta=60.0,
    )
    said: list[str] = []
    result = Run(scenario, 1, 0.0, tmp_path, say=said.append).run()
    assert result["violations"] == []
    assert result == json.loads((tmp_path / "result.json").read_text("utf-8"))
    assert result["engine"] == "redis"
    assert result["acquisitions"] > 0
    assert set(result["granted"]) == {"threads", "asyncio"}
    assert all(result["granted"].values())
    assert result["writes"]["fenced"]["applied"] > 0
    assert result["faults"] == {"kill-client": 1, "pause-client": 3}
    assert result["lapse"] == "it lost a write"
    assert {path.stem for path in (tmp_path / "history").iterdir()} >= {
        *("faults", "worker0.1", "worker1.1")
    }
    logs = {path.name.partition("-")[0] for path in (tmp_path / "logs").iterdir()}
    assert logs == {"redis", "worker0", "worker1"}
    assert "healed" in said


def test_a_wait_is_excused_by_what_the_engine_lost_by_itself_and_by_nothing_else() -> None:
    scenario = Scenario(name="n", site="zookeeper", why="w", ttl=1.0, seconds=0.0, delta=4.0)
    wait = Record("a", Kind.ACQUIRE, "lock:1", 10.0, 20.0, Outcome.NO, value="busy")
    lapse = Record(
        *("faults", Kind.FAULT, LAPSE, 9.0, 21.0, Outcome.OK),
        value="it lost 3 of 7 writes",
        extra={"breaks": "data"},
    )
    alone = judge(scenario, [wait], {}, {}, healed=9.5)
    assert [each["checker"] for each in alone["violations"]] == ["recovers", "recovers"]
    assert alone["lapse"] == ""
    excused = judge(scenario, [wait, lapse], {}, {}, healed=9.5)
    assert (excused["violations"], excused["faults"]) == ([], {})
    assert excused["lapse"] == lapse.value
    # What was over when the first of it was acknowledged has no excuse.
    early = replace(wait, began=1.0, ended=8.0)
    told = judge(scenario, [early, lapse], {}, {}, healed=0.5)
    assert [each["checker"] for each in told["violations"]] == ["recovers"]


def test_a_lease_that_a_replica_has_cost_breaks_only_what_was_promised() -> None:
    scenario = Scenario(name="n", site="service-redis", why="w", ttl=1.0, seconds=0.0, delta=4.0)
    granted = Record("a", Kind.ACQUIRE, "lock:1", 9.0, 9.1, Outcome.OK, 1, "i", until=10.0)
    gone = replace(granted, kind=Kind.LOST, began=10.1, ended=10.1)
    death = Record("faults", Kind.FAULT, "kill-replica", 9.2, 9.9, Outcome.OK)
    told = judge(scenario, [granted, death, gone], {}, {}, healed=11.0)
    assert (told["violations"], told["lost_by"]) == ([], {"a replica died": 1})
    told = judge(replace(scenario, carried=True), [granted, death, gone], {}, {}, healed=11.0)
    assert [each["checker"] for each in told["violations"]] == ["carried"]


def test_work_that_is_never_granted_again_is_told() -> None:
    def asked(name: str, ended: float, outcome: Outcome) -> Record:
        return Record("a", Kind.ACQUIRE, name, ended - 0.1, ended, outcome)

    before = asked("lock:1", 1.0, Outcome.OK)
    after = asked("lock:1", 5.0, Outcome.UNKNOWN)
    assert len(unserved([before, after], healed=3.0)) == 1
    assert unserved([after, asked("lock:2", 6.0, Outcome.OK)], healed=3.0) == []


def result(engine: str, acquisitions: int, **faults: int) -> dict[str, Any]:
    return {
        "scenario": "s",
        "seed": 1,
        "engine": engine,
        "acquisitions": acquisitions,
        **dict.fromkeys(("releases", "lost", "unknown", "missed", "pairs"), 0),
        "seconds": 1.0,
        "writes": {
            "fenced": {"applied": 1, "refused": 2, "unknown": 0},
            "unfenced": {"applied": 3, "stale_applied": 2, "lost_updates": 2},
        },
        "overlaps": {"count": 0},
        "recovery": {"longest": 0.5},
        "faults": faults,
        "violations": [],
    }


def test_figures_tell_where_there_was_too_little() -> None:
    figures = Figures()
    figures.add(result("redis", 12_000, pause=3))
    figures.add(result("redis", 8_000, pause=2))
    figures.add(result("etcd", 2_999, pause=5, kill=4))
    assert figures.short() == {
        "etcd": [
            "etcd: 2999 acquisitions, 3000 are needed",
            "etcd: kill came 4 times, 5 are needed",
        ]
    }
    assert figures.summary()["stale_writes_refused"] == 6
    assert "22999" not in figures.table()
    assert figures.summary()["acquisitions"] == 22_999


def test_figures_keep_what_was_broken() -> None:
    figures = Figures()
    broken = {"checker": "tokens_unique", "said": "twice"}
    figures.add({**result("redis", 1), "violations": [broken]})
    nothing = {"scenario": "s", "seed": 2, "engine": "", "faults": {}, "violations": [broken]}
    figures.add(nothing)
    assert figures.broken == ["s/1: tokens_unique: twice", "s/2: tokens_unique: twice"]
    assert "1 VIOLATIONS" in figures.line(nothing)
    assert "held" in figures.line(result("redis", 1))
