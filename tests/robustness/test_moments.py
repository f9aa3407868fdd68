"""Moments: what is cut out of a run shows what it is about, and survives its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.robustness.checkers import by_fault, overlaps
from tests.robustness.history import Kind, Outcome, Record
from tests.robustness.moments import LONGEST, Moment, load, moments
from tests.robustness.play import TTL, Play


@pytest.fixture(scope="module")
def play() -> Play:
    return Play(5, pauses=0.1).run(400)


@pytest.fixture(scope="module")
def found(play: Play) -> dict[str, Moment]:
    return {moment.why: moment for moment in moments(play.history)}


def test_the_longest_overlap_is_shown_whole(play: Play, found: dict[str, Moment]) -> None:
    longest = max(overlap.seconds for overlap in overlaps(play.history))
    moment = found["overlap"]
    assert moment.score == longest
    assert max(o.seconds for o in overlaps(moment.records)) == longest


def test_refused_writes_are_shown_with_the_grants_that_they_came_from(
    found: dict[str, Moment],
) -> None:
    moment = found["refused"]
    refused = [r for r in moment.records if r.kind is Kind.WRITE and r.outcome is Outcome.NO]
    assert moment.score == len([r for r in refused if r.began >= moment.began + LONGEST / 2]) > 0
    grants = {r.id for r in moment.records if r.kind is Kind.ACQUIRE}
    assert all(r.id in grants for r in refused)


def test_a_moment_is_of_one_name_and_short(found: dict[str, Moment]) -> None:
    for moment in found.values():
        assert {r.name for r in moment.records if r.kind is not Kind.FAULT} == {moment.name}
        assert moment.ended - moment.began <= LONGEST + 1e-6


def test_a_failover_is_shown_where_most_was_going_on(play: Play) -> None:
    quiet, busy = 0.0, 30.0
    fault = Record("faults", Kind.FAULT, "cut-leader", busy, busy + 1, Outcome.OK)
    moment = next(m for m in moments([*play.history, fault]) if m.why == "failover")
    assert (moment.began < busy < moment.ended, moment.score) == (True, 1.0)
    assert fault in moment.records
    assert [r for r in moment.records if r.kind is Kind.ACQUIRE and r.ended > quiet]


def test_a_moment_survives_its_file(found: dict[str, Moment], tmp_path: Path) -> None:
    for why, moment in found.items():
        moment.write(tmp_path)
        assert load(tmp_path / f"{why}.jsonl") == moment


def test_what_happens_under_a_fault_is_counted_for_its_kind(play: Play) -> None:
    counts = by_fault(play.history, TTL)["pause-client"]
    refused = [r for r in play.history if r.kind is Kind.WRITE and r.outcome is Outcome.NO]
    assert counts["refused"] == len(refused) > 0
    assert counts["overlaps"] == len(overlaps(play.history)) > 0
    assert counts["rightful"] == counts["out_of_order"] == 0
    assert 0 < counts["grants"] < 400
