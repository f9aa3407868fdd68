"""The campaign: each run is counted once, also one without an end, and set-ups take turns."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from tests.robustness import killed
from tests.robustness.faults import FAULTS
from tests.robustness.killed import Line
from tests.robustness.many import Ask, after, rotation, unfinished
from tests.robustness.report.campaign import Campaign, NothingNewError
from tests.robustness.report.campaign_page import page
from tests.robustness.report.results import Run, by_engine
from tests.robustness.scenario import names
from tests.robustness.setups import DEFAULT, SETUPS, Setup, choose, of_site
from tests.robustness.sites import SITES
from tests.robustness.sites.site import Access
from tests.servers.process import ServerError

ROOT = Path(__file__).parents[2]


def result(seed: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401  # as JSON has it
    return {
        "scenario": "redis-cluster",
        "engine": "redis",
        "setup": "valkey-9.1",
        "servers": "Valkey 9.1.2",
        "seed": seed,
        "seconds": 100.0,
        "busy": 0.25,
        "acquisitions": 1_000,
        "lost": 3,
        "writes": {"fenced": {"refused": 2}, "unfenced": {"stale_applied": 1}},
        "faults": {"pause-client": 7, "loss": 2},
        "overlaps": {"count": 4},
        "counted": {"kept": 5},
        "lost_by": {"the machine was too busy": 2, "no fault": 1},
        "violations": [],
        "lapse": "",
        "version": "abc1234",
        "date": "2026-11-20",
        **more,
    }


def keep(folder: Path, *results: dict[str, Any]) -> Path:
    for said in results:
        run = folder / f"{said['scenario']}-{said['seed']}"
        run.mkdir(parents=True)
        (run / "result.json").write_text(json.dumps(said), "utf-8")
    return folder


# --- the ledger ---------------------------------------------------------------------------------


def test_runs_with_all_in_common_but_the_seed_are_one_line(tmp_path: Path) -> None:
    campaign = Campaign()
    other = result(8, setup="default", servers="Redis 7.0.15")
    assert campaign.add(keep(tmp_path, result(7), result(9), other)) == 3
    plain, valkey = campaign.stretches
    assert (plain["runs"], valkey["runs"], valkey["seeds"]) == (1, 2, [7, 9])
    assert (valkey["acquisitions"], valkey["faults"], valkey["lost"]) == (2_000, 18, 6)
    assert (valkey["refused"], valkey["stale"], valkey["overlaps"]) == (4, 2, 8)
    assert (valkey["seconds"], valkey["busy"], valkey["counted"]) == (200, 50, {"kept": 10})
    assert (valkey["commit"], valkey["servers"]) == ("abc1234", "Valkey 9.1.2")


def test_a_run_is_not_added_twice(tmp_path: Path) -> None:
    campaign = Campaign()
    (keep(tmp_path, result(7)) / "etcd-8").mkdir()
    assert campaign.add(tmp_path) == 2
    with pytest.raises(NothingNewError, match="no run that was not added before"):
        campaign.add(tmp_path)
    assert campaign.add(keep(tmp_path, result(9))) == 1
    assert [each["seeds"] for each in campaign.stretches] == [[8], [7], [9]]


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    campaign = Campaign()
    campaign.add(keep(tmp_path, result(7)))
    campaign.write(tmp_path / "campaign.jsonl")
    again = Campaign.read(tmp_path / "campaign.jsonl")
    assert again.stretches == campaign.stretches
    assert again.seeds == {7}


def test_a_run_without_an_end_is_counted_and_listed(tmp_path: Path) -> None:
    campaign = Campaign()
    (tmp_path / "etcd-12" / "history").mkdir(parents=True)
    said = unfinished(Ask("service-etcd", 3, 1.0, tmp_path, SETUPS["tls"]), "Traceback")
    campaign.add(keep(tmp_path, said))
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\d", each["date"]) for each in campaign.stretches)
    killed_, ended = sorted(campaign.stretches, key=lambda each: str(each["scenario"]))
    assert (killed_["scenario"], killed_["engine"], killed_["seeds"]) == ("etcd", "etcd", [12])
    assert (ended["engine"], ended["setup"]) == ("service", "tls")
    text = page(campaign)
    assert "**2 runs of 0.0 hours" in text
    assert (
        "2 violations, of which 2 have no explanation.** 2 runs did not come to their end" in text
    )
    assert "| etcd, default, seed 12 | `harness` | it was ended before its end" in text


def test_each_violation_is_listed_until_it_is_explained_and_then_too(tmp_path: Path) -> None:
    campaign = Campaign()
    wrong = [{"checker": "kept", "said": "a <b> was gone"}, {"checker": "recovers", "said": "c"}]
    campaign.add(keep(tmp_path, result(7, violations=wrong)))
    assert "2 violations, of which 2 have no explanation" in page(campaign)
    campaign.stretches[0]["violations"][0]["cause"] = "ours: fixed in abc"
    text = page(campaign)
    assert "2 violations, of which 1 have no explanation" in text
    assert "| `kept` | a &lt;b&gt; was gone | ours: fixed in abc |" in text
    assert "| `recovers` | c | **not explained yet** |" in text


def test_what_is_excused_is_listed(tmp_path: Path) -> None:
    campaign = Campaign()
    campaign.add(keep(tmp_path, result(7, lapse="it lost 3 of 9 writes")))
    text = page(campaign)
    assert "| redis-cluster, valkey-9.1, seed 7 | lapse: it lost 3 of 9 writes |" in text
    assert "| redis-cluster, valkey-9.1 | `kept` 5 |" in text
    assert "| redis-cluster, valkey-9.1 | 2 leases lost while the machine was too busy" in text
    assert "| 0 | 25% |" in text


def test_the_page_of_the_campaign_is_that_of_its_ledger() -> None:
    written = (ROOT / "docs/robustness/campaign.md").read_text("utf-8")
    assert written == page(Campaign.read()), "python -m tests.robustness.report --add"


def test_the_ledger_begins_with_the_runs_of_the_report() -> None:
    before = [each for each in Campaign.read().stretches if each.get("before")]
    report = (ROOT / "docs/robustness/report.md").read_text("utf-8")
    sums = {word: sum(each[word] for each in before) for word in ("runs", "acquisitions", "faults")}
    assert f"{sums['runs']} runs of 2.0 hours in all, at `{before[0]['commit']}`" in report
    assert f"{sums['acquisitions']:,} acquisitions under {sums['faults']:,} faults" in report


# --- the rotation -------------------------------------------------------------------------------


def test_each_seed_chooses_a_setup_and_all_of_a_site_come_in_turn() -> None:
    for site in SITES:
        among = of_site(site)
        assert among[0] is DEFAULT
        assert [choose(site, seed) for seed in range(1, 1 + len(among))] == [*among[1:], DEFAULT]


def test_each_setup_is_of_sites_and_without_faults_that_there_are() -> None:
    for setup in SETUPS.values():
        assert set(setup.sites) <= SITES.keys()
        assert set(setup.without) <= FAULTS.keys()
    assert {setup.access for setup in SETUPS.values()} == set(Access)


def test_a_round_has_each_scenario_and_sqlite_once(tmp_path: Path) -> None:
    asks = rotation(3, tmp_path)
    assert [ask.scenario for ask in asks] == [*names(), "killed"]
    assert len({ask.out for ask in asks}) == len(asks)
    assert {ask.setup.name for ask in asks} > {"default"}


def test_the_torture_goes_on_behind_the_last_seed(tmp_path: Path) -> None:
    highest = max(Campaign.read().seeds)
    assert after(tmp_path) == highest + 1
    (tmp_path / f"redis-aof-{highest + 5}").mkdir()
    (tmp_path / f"redis-aof-{highest + 9}.log").touch()
    assert after(tmp_path) == highest + 6


def test_servers_are_fetched_once_and_come_first_in_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.robustness.setups._FOLDER", tmp_path)
    fetched: list[Path] = []

    def get(folder: Path) -> dict[str, str]:
        folder.mkdir()
        fetched.append(folder)
        return {"PATH": f"{folder}:{os.environ['PATH']}", "OTHER": "x"}

    setup = Setup("some-1", get=get)
    first = setup.environment()
    monkeypatch.setenv("PATH", "/elsewhere")
    assert first["PATH"].startswith(f"{tmp_path / 'some-1'}:")
    assert setup.environment() == {"PATH": f"{tmp_path / 'some-1'}:/elsewhere", "OTHER": "x"}
    assert len(fetched) == 1


def test_servers_that_cannot_be_fetched_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.robustness.setups._FOLDER", tmp_path)

    def get(folder: Path) -> dict[str, str]:
        raise OSError(f"no registry for {folder.name}")

    with pytest.raises(ServerError, match=r"some-1 were not fetched: no registry"):
        Setup("some-1", get=get).environment()


# --- SQLite -------------------------------------------------------------------------------------


def test_a_run_on_sqlite_is_added_up_like_the_others(tmp_path: Path) -> None:
    lines = [Line(1.0, 1, "asks"), Line(1.5, 1, "holds", 1), Line(2.0, 1, "leaves", 1)]
    said = {**killed.result(lines, [], 4, 9), "seconds": 60.0, "busy": 0.0}
    sums = by_engine([Run(said)])["sqlite"]
    assert (sums.counts["acquisitions"], sums.recovery) == (1, 0.5)
    campaign = Campaign()
    campaign.add(keep(tmp_path, said))
    (line,) = campaign.stretches
    assert (line["engine"], line["acquisitions"], line["faults"]) == ("sqlite", 1, 9)
