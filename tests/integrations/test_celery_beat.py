"""A beat that follows keeps up with the leader, so that it can take over at any time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery import Celery
from celery.beat import ScheduleEntry

from lockfast.integrations.celery import LeadingScheduler
from lockfast.testing.lab import Lab
from tests.servers import wait_until

TTL = 60.0


class Recording(LeadingScheduler):
    """Sends nothing, and remembers what it would have sent."""

    sent: list[str]
    fails: BaseException | None = None
    """What sending raises."""
    old_schedulers: dict[str, ScheduleEntry]
    """Celery's: the schedule that its heap was made of."""

    def apply_async(self, entry: ScheduleEntry, *_: Any, **__: Any) -> None:  # noqa: ANN401  # Celery's
        if self.fails is not None:
            self.sync()  # Celery does this too when a signal arrives
            raise self.fails
        self.sent.append(str(entry.name))


@pytest.fixture
def app(lockfast_lab: Lab) -> Iterator[Celery]:
    with Celery("beats", broker="memory://", set_as_current=False) as app:
        app.conf.beat_schedule = {"every minute": {"task": "x", "schedule": 60.0}}
        app.conf.lockfast_beat = lockfast_lab.client.election("beat", ttl=TTL)
        yield app


@pytest.fixture
def beat(app: Celery, tmp_path: Path) -> Iterator[Recording]:
    beat = Recording(app=app, schedule_filename=str(tmp_path / "schedule"))
    beat.sent = []
    yield beat
    beat.close()


def due(beat: Recording, ago: float) -> None:
    """Let the entry have come due so many seconds ago, as planned by one that led."""
    entry = beat.schedule["every minute"]
    entry.last_run_at = entry.default_now() - timedelta(seconds=60.0 + ago)
    beat.old_schedulers = dict(beat.schedule)
    beat.populate_heap()


def leads(beat: Recording) -> bool:
    beat.tick()
    return beat._candidacy is not None and beat._candidacy.lease is not None


def is_due(beat: Recording) -> bool:
    return beat.schedule["every minute"].is_due()[0]


def test_what_came_due_before_the_leader_was_last_seen_counts_as_sent(
    lockfast_lab: Lab, beat: Recording
) -> None:
    with lockfast_lab.connect().election("beat", ttl=TTL).campaign():
        due(beat, ago=15.0)
        assert beat.tick() <= 1.0
        assert not is_due(beat)
        assert not beat.sent


def test_what_came_due_since_the_leader_was_last_seen_is_sent_by_the_next(
    lockfast_lab: Lab, beat: Recording
) -> None:
    other = lockfast_lab.connect()
    lease = other.election("beat", ttl=TTL).campaign()
    beat.tick()
    with lockfast_lab.pause(other):
        lockfast_lab.clock.advance(20.0)
        due(beat, ago=5.0)
        beat.tick()
        assert is_due(beat)  # it may have died before that
        assert not beat.sent
        lockfast_lab.lose(lease)

        def sent() -> bool:
            beat.tick()
            return beat.sent == ["every minute"]

        wait_until(sent, "it leads, and sends")
    assert not is_due(beat)


def test_what_a_leader_was_about_to_send_when_it_was_killed_is_sent_by_the_next(
    lockfast_lab: Lab, beat: Recording
) -> None:
    """It renews its lease while it sends other entries, or waits for the broker."""
    other = lockfast_lab.connect()
    lease = other.election("beat", ttl=TTL).campaign()
    due(beat, ago=0.5)
    beat.tick()
    assert is_due(beat)
    with lockfast_lab.pause(other):
        lockfast_lab.lose(lease)

        def sent() -> bool:
            beat.tick()
            return beat.sent == ["every minute"]

        wait_until(sent, "it leads, and sends")
    assert not is_due(beat)


def test_what_a_beat_was_about_to_send_when_it_was_stopped_is_sent_after_its_next_start(
    app: Celery, tmp_path: Path
) -> None:
    for fails, sent in ((SystemExit(), 0), (None, 1), (None, 0)):
        beat = Recording(app=app, schedule_filename=str(tmp_path / "schedule"))
        beat.sent, beat.fails = [], fails
        if fails is not None:
            due(beat, ago=0.5)
            with pytest.raises(SystemExit):
                wait_until(lambda beat=beat: leads(beat) and False, "it sends")  # type: ignore[misc]  # of the loop
        else:
            wait_until(lambda beat=beat: leads(beat), "it leads")  # type: ignore[misc]  # of the loop
            beat.tick()
        beat.close()
        assert len(beat.sent) == sent


def test_nothing_counts_as_sent_while_nobody_leads(beat: Recording) -> None:
    due(beat, ago=5.0)
    beat._follow()
    assert is_due(beat)


def test_what_another_has_sent_is_not_sent_by_one_that_leads_again(
    lockfast_lab: Lab, beat: Recording
) -> None:
    with lockfast_lab.connect().election("beat", ttl=TTL).campaign():
        due(beat, ago=15.0)
        beat.tick()
    wait_until(lambda: leads(beat), "it leads again")
    beat.tick()
    assert not beat.sent


def test_a_leader_that_was_stopped_sends_nothing_when_it_goes_on(
    lockfast_lab: Lab, beat: Recording
) -> None:
    wait_until(lambda: leads(beat), "it leads")
    with lockfast_lab.pause(lockfast_lab.client):
        lockfast_lab.clock.advance(TTL)
        due(beat, ago=0.5)
        beat.tick()
        assert not beat.sent


def test_without_an_election_it_says_what_is_missing(app: Celery, tmp_path: Path) -> None:
    app.conf.lockfast_beat = None
    beat = LeadingScheduler(app=app, schedule_filename=str(tmp_path / "schedule"))
    with pytest.raises(TypeError, match=r"set app\.conf\.lockfast_beat to an election"):
        beat.tick()
    beat.close()
