"""The report: counts as they are, empty where nothing ran, pictures that can be read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from tests.robustness.checkers import by_fault, overlaps
from tests.robustness.history import Kind, Outcome, Record
from tests.robustness.moments import Moment, moments
from tests.robustness.play import TTL, Play
from tests.robustness.report.__main__ import write
from tests.robustness.report.choose import choose
from tests.robustness.report.places import Lanes, Shelf
from tests.robustness.report.results import by_engine, runs
from tests.robustness.report.svg import HUES, draw
from tests.robustness.report.timeline import Timeline, timeline
from tests.robustness.report.track import PATH, track_record

ROOT = Path(__file__).parents[2]
SVG = "{http://www.w3.org/2000/svg}"


def result(play: Play, engine: str, seed: int, **more: Any) -> dict[str, Any]:  # noqa: ANN401  # as JSON has it
    grants = [r for r in play.history if r.kind is Kind.ACQUIRE]
    refused = [r for r in play.history if r.kind is Kind.WRITE and r.outcome is Outcome.NO]
    return {
        "scenario": engine,
        "engine": engine,
        "seed": seed,
        "seconds": 90.0,
        "acquisitions": len(grants),
        "lost": 3,
        "unknown": 2,
        "writes": {
            "fenced": {"applied": 50, "refused": len(refused), "unknown": 0},
            "unfenced": {"applied": 52, "stale_applied": 2},
        },
        "faults": {"pause-client": 7},
        "by_fault": by_fault(play.history, TTL),
        "overlaps": {"count": len(overlaps(play.history)), "longest": 1.25, "rightful": 0},
        "recovery": {"longest": 0.5, "bound": 2.0},
        "violations": [],
        "control": None,
        "caught": None,
        "version": "abc1234",
        **more,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs on two engines, with moments, and a control."""
    folder = tmp_path_factory.mktemp("runs")
    for engine, seed in (("redis", 1), ("etcd", 2)):
        play = Play(seed, pauses=0.15).run(250)
        here = folder / f"{engine}-{seed}"
        for moment in moments(play.history):
            moment.write(here / "moments")
        said = result(play, engine, seed)
        if engine == "etcd":
            said["lost_by"] = {"a replica died": 2, "no fault": 1}
            said["faults"] = {"pause-client": 7, "cut-minority": 5}
        (here / "result.json").write_text(json.dumps(said), "utf-8")
    control = {"control": "no owner", "where": "redis", "fault": "pause", "checker": "kept"}
    ends = ({"seconds": 2.4, "caught": True}, {"seconds": 9, "caught": False})
    told = json.dumps([{**control, **end} for end in ends])
    (folder / "controls.json").write_text(told, "utf-8")
    # A scenario that was run with a mutant is a run that must break: it does not count.
    (folder / "mutant").mkdir()
    broken = [{"checker": "tokens_unique", "said": "x"}]
    mutant = result(Play(1).run(10), "redis", 1, control="no owner", violations=broken)
    (folder / "mutant/result.json").write_text(json.dumps(mutant), "utf-8")
    return folder


@pytest.fixture(scope="module")
def written(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    (out / "overlap-old-1.svg").write_text("of another time")
    assert write([folder], out, out / "report.html") == 3
    return out


def test_runs_are_added_up_by_engine_and_controls_are_not(folder: Path) -> None:
    engines = by_engine(runs([folder]))
    assert list(engines) == ["redis", "etcd"]
    assert engines["redis"].counts["acquisitions"] == 250
    assert engines["redis"].longest == 1.25
    assert engines["etcd"].faults == {"pause-client": 7, "cut-minority": 5}


def test_the_page_has_counts_and_nothing_where_nothing_ran(written: Path) -> None:
    page = (written / "report.md").read_text("utf-8")
    assert "| acquisitions | 250 | 250 |" in page
    assert "| cut-minority |  | 5 |" in page
    assert "| a replica died |  | 2 |" in page
    assert re.search(r"\| pause-client \| 0 of [1-9]\d* \| 0 of [1-9]\d* \|", page)
    assert "500 acquisitions under 19 faults" in page
    assert "**0 violations**" in page
    assert "There was no violation." in page
    assert "| no owner | redis | pause | `kept` | 2 |" in page
    assert "| no owner | redis | pause | **not caught** | 9 |" in page


def test_a_violation_is_told(folder: Path, tmp_path: Path) -> None:
    wrong = [{"checker": "capacity", "said": "a, b held 2 of 1 at once"}]
    said = result(Play(1).run(10), "redis", 4, violations=wrong)
    (tmp_path / "result.json").write_text(json.dumps(said), "utf-8")
    write([folder, tmp_path], tmp_path / "out", tmp_path / "out/report.html")
    page = (tmp_path / "out/report.md").read_text("utf-8")
    assert "**1 violations**" in page
    assert "- redis, seed 4: `capacity`: a, b held 2 of 1 at once" in page


def test_what_was_said_in_a_run_is_neither_markup_nor_a_command(
    folder: Path, tmp_path: Path
) -> None:
    hostile = "a\x1b[2J <script>alert(1)</script> ![x](http://evil.example/x) | `b`"
    wrong = [{"checker": "capacity", "said": hostile}]
    said = result(Play(1).run(10), "redis", 4, violations=wrong)
    (tmp_path / "result.json").write_text(json.dumps(said), "utf-8")
    write([folder, tmp_path], tmp_path / "out", tmp_path / "out/report.html")
    html = (tmp_path / "out/report.html").read_text("utf-8")
    assert "<script>" not in html
    assert "\x1b" not in html
    assert 'src="http://evil' not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt; ![x](http://evil.example/x) | `b`" in html


def test_a_picture_is_xml_whatever_its_names_are() -> None:
    picture = draw(shown()._replace(title="\x1b[2J<b>&\x00", rows=["\x07<i>"], bars=[], dots=[]))
    ET.fromstring(picture)  # noqa: S314  # our own
    assert "\\x1b[2J&lt;b&gt;&amp;\\x00" in picture


def test_every_picture_of_the_page_is_there_and_no_other(written: Path) -> None:
    page = (written / "report.md").read_text("utf-8")
    shown = set(re.findall(r"\]\(([^)]+\.svg)\)", page))
    assert shown == {path.name for path in written.glob("*.svg")}
    assert {name.split("-")[0] for name in shown} == {"overlap", "refused"}


def test_the_standalone_page_has_all_inside(written: Path) -> None:
    html = (written / "report.html").read_text("utf-8")
    assert html.count("data:image/svg+xml;base64,") == len(list(written.glob("*.svg")))
    assert "index.md" not in html
    assert "<h2>The guarantees, as measured</h2>" in html


def test_the_longest_overlap_of_all_is_shown_and_that_of_another_engine(folder: Path) -> None:
    found = runs([folder])
    chosen = [one for one in choose(found) if one.moment.why == "overlap"]
    scores = [moment.score for run in found for moment in run.moments if moment.why == "overlap"]
    assert [one.moment.score for one in chosen] == sorted(scores, reverse=True)
    assert {one.run.said["engine"] for one in chosen} == {"redis", "etcd"}


# --- timelines ----------------------------------------------------------------------------------


def shown() -> Timeline:
    """A is paused, B is granted, A writes: refused by the fence, applied by the twin."""

    def record(client: str, kind: Kind, began: float, ended: float, **more: Any) -> Record:  # noqa: ANN401  # by name
        said: dict[str, Any] = {"token": 70, "id": client, "outcome": Outcome.OK, **more}
        return Record(client=client, kind=kind, name="register:0", began=began, ended=ended, **said)

    records = [
        record("a.1", Kind.ACQUIRE, 10.0, 10.2, until=11.0),
        record("b.1", Kind.ACQUIRE, 10.5, 11.1, token=71, until=13.0),
        record("b.1", Kind.WRITE, 11.2, 11.3, token=71, value="b"),
        record("b.1", Kind.WRITE, 11.2, 11.3, token=71, value="b", fenced=False),
        record("a.1", Kind.LOST, 12.0, 12.0, until=11.0),
        record("a.1", Kind.WRITE, 12.1, 12.2, value="a", fenced=False),
        record("a.1", Kind.WRITE, 12.1, 12.2, value="a", outcome=Outcome.NO),
        record("a.1", Kind.RELEASE, 12.3, 12.4, outcome=Outcome.NO),
        record("b.1", Kind.RELEASE, 12.5, 12.6, token=71, until=13.0),
        Record(
            *("faults", Kind.FAULT, "pause-client", 10.3, 12.0, Outcome.OK), value="paused a <now>"
        ),
        Record(*("faults", Kind.FAULT, "delay", 10.0, 13.9, Outcome.OK), value="delayed x"),
    ]
    return timeline(Moment("overlap", 0.9, "register:0", 10.0, 14.0, records), "redis & co")


def test_a_timeline_shows_who_went_on_and_what_became_of_it() -> None:
    line = shown()
    assert line.rows == ["a", "b"]
    first, second = line.bars
    assert (first.number, second.number) == (1, 2)
    assert (first.began, first.until) == pytest.approx((0.2, 1.0))
    assert first.ended == pytest.approx(2.3), "until it lets go, not until it is told"
    assert second.until == pytest.approx(2.5)
    assert [(band.row, band.label) for band in line.bands] == [
        ("a", "pause-client"),
        ("servers", "delay"),
    ]
    assert [(dot.row, dot.fenced, dot.stale) for dot in line.dots] == [
        ("b", True, False),
        ("b", False, False),
        ("a", False, True),
        ("a", True, True),
    ]


def test_a_picture_is_xml_and_says_in_words_what_it_shows() -> None:
    root = ET.fromstring(draw(shown()))  # noqa: S314  # our own
    words = ["".join(text.itertext()) for text in root.iter(f"{SVG}text")]
    assert {"1 refused", "1 stale", "pause-client", "delay", "fenced register"} <= set(words)
    assert "The longest overlap: register:0 on redis & co" in words
    (told,) = root.iter(f"{SVG}desc")
    assert told.text is not None
    assert "1 stale writes refused by the fence" in told.text
    bars = [rect.get("fill") for rect in root.iter(f"{SVG}rect") if rect.get("fill") in HUES]
    assert len(bars) == 2 + 1, "two grants, and the legend"


@pytest.mark.parametrize("seed", range(6))
def test_no_words_of_a_picture_lie_upon_each_other(seed: int) -> None:
    for moment in moments(Play(seed, clients=7, pauses=0.2, deaths=0.1).run(300).history):
        root = ET.fromstring(draw(timeline(moment, "play")))  # noqa: S314  # our own
        boxes = []
        for text in root.iter(f"{SVG}text"):
            words = "".join(text.itertext())
            x, y, width = float(text.get("x", 0)), float(text.get("y", 0)), 6.0 * len(words)
            left = {"end": x - width, "middle": x - width / 2}.get(text.get("text-anchor", ""), x)
            if text.get("class") not in ("in", "head"):
                boxes.append((left, left + width, y, words))
        for i, (left, right, y, words) in enumerate(boxes):
            for other_left, other_right, other_y, other in boxes[i + 1 :]:
                if abs(y - other_y) < 9:
                    assert right <= other_left or other_right <= left, (words, other)


def test_what_meets_gets_lanes_of_its_own() -> None:
    lanes = Lanes()
    assert [lanes.place(*span) for span in ((0, 5), (3, 6), (5, 9), (6, 8))] == [0, 1, 0, 1]
    assert lanes.count == 2


def test_words_that_do_not_fit_are_left_out_and_none_leaves_the_picture() -> None:
    shelf = Shelf()
    assert shelf.place(10, 20, 100) == 10
    assert shelf.place(25, 20, 100) is None
    assert shelf.place(95, 20, 100) == 78


# --- the track record ---------------------------------------------------------------------------


def test_every_test_of_the_track_record_is_there() -> None:
    said = track_record()
    named = re.findall(r"`((?:tests|src)/[\w/]+\.py)(?:::(\w+))?`", said)
    assert len(named) >= 9
    for path, name in named:
        assert name in (ROOT / path).read_text("utf-8"), name


def test_every_bug_has_its_commit() -> None:
    fixed = re.findall(r'^fixed = "(.*)"$', PATH.read_text("utf-8"), re.MULTILINE)
    assert fixed
    assert all(re.fullmatch(r"[0-9a-f]{7,40}", each) for each in fixed)
