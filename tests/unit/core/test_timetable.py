"""The timetable of the heart."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from lockfast.core.timetable import Pulse


def test_what_is_due_is_taken_once_soonest_first() -> None:
    pulse: Pulse[str] = Pulse()
    lane = pulse.lane(10.0)
    lane["a"], lane["b"], lane["c"] = 10.0, 11.0, 12.0
    assert pulse.next() == 10.0
    assert pulse.take(11.0) == [["a", "b"]]
    assert pulse.take(11.0) == []
    assert pulse.next() == 12.0


def test_an_appointment_comes_besides_the_regular_beat() -> None:
    pulse: Pulse[str] = Pulse()
    pulse.lane(10.0)["a"] = 10.0
    pulse.appoint("a", 3.0)
    assert pulse.next() == 3.0
    assert pulse.take(3.0) == [["a"]]
    assert pulse.next() == 10.0


def test_a_claim_is_taken_once_however_often_it_is_due() -> None:
    pulse: Pulse[str] = Pulse()
    pulse.lane(10.0)["a"] = 3.0
    for key in ("a", "b", "c", "b"):
        pulse.appoint(key, 2.0)
    assert pulse.take(3.0) == [["a"], ["b", "c"]]
    assert pulse.take(3.0) == []


def test_nothing_is_ever_due_in_an_empty_one() -> None:
    assert Pulse[str]().next() is None
    assert Pulse[str]().take(1e9) == []


def test_batches_have_like_ttls() -> None:
    pulse: Pulse[str] = Pulse()
    pulse.lane(0.1)["short"] = 1.0
    pulse.lane(10.0)["long"] = 1.0
    assert sorted(pulse.take(1.0)) == [["long"], ["short"]]


@given(st.floats(0.01, 30_000.0))
def test_a_lane_beats_as_often_as_asked_or_slightly_oftener(interval: float) -> None:
    lane = Pulse[str]().lane(interval)
    assert interval * 7 / 8 <= lane.interval <= interval


@given(st.lists(st.floats(0.01, 30_000.0), min_size=300, max_size=300))
def test_a_thousand_ttls_make_a_few_lanes(intervals: list[float]) -> None:
    pulse: Pulse[str] = Pulse()
    assert len({id(pulse.lane(interval)) for interval in intervals}) <= 22 * 8


def test_a_hundred_thousand_cost_as_much_each_as_a_thousand() -> None:
    def cost(count: int) -> float:
        pulse: Pulse[int] = Pulse()
        lane = pulse.lane(10.0)
        started = time.process_time()  # other processes' work does not count
        for key in range(count):
            lane[key] = float(key)
        for now in range(0, count, 100):
            for batch in pulse.take(float(now)):
                for key in batch:
                    lane[key] = count + now
            pulse.next()
        return (time.process_time() - started) / count

    few = min(cost(1_000) for _ in range(5))
    many = min(cost(100_000) for _ in range(3))
    assert many < 6 * few


def test_a_beat_for_two_of_very_many_costs_no_more_than_one_for_two_of_a_few() -> None:
    def cost(count: int) -> float:
        pulse: Pulse[int] = Pulse()
        lane = pulse.lane(100.0)
        for key in range(count):
            lane[key] = float(key)
        for key in range(count * 2 // 3):  # these were renewed already
            del lane[key]
            lane[key] = float(count + key)
        started = time.process_time()
        for beat in range(500):
            for batch in pulse.take(count * 2 / 3 + 2 * beat):
                for key in batch:
                    lane[key] = float(count + key)
            pulse.next()
        return time.process_time() - started

    few = min(cost(3_000) for _ in range(3))
    many = min(cost(200_000) for _ in range(2))
    assert many < 6 * few
