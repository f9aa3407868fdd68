"""Beats of django-celery-beat on one database: the leader sends, and the next one knows what."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery import Celery
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

import lockfast
from lockfast.integrations.celery import leading
from lockfast.testing.lab import Lab
from tests.guards.registers.django import configure
from tests.servers import Postgres, wait_until

# A process has one Django project, which the import above has set up: models need it.
from django_celery_beat.models import IntervalSchedule, PeriodicTask  # isort: skip
from lockfast.integrations.celery.database import LeadingDatabaseScheduler  # isort: skip

TTL = 60.0
HOUR = timedelta(hours=1)


class Recording(LeadingDatabaseScheduler):
    """Sends nothing, and remembers what it would have sent."""

    sent: list[str]
    fails: BaseException | None = None
    """What sending raises."""
    meanwhile: Callable[[], object] = bool
    """What happens while it sends."""

    def send_task(self, *args: Any, **_: Any) -> None:  # noqa: ANN401  # Celery's
        self.meanwhile()
        if self.fails is not None:
            raise self.fails
        self.sent.append(str(args[0]))

    def leads(self) -> bool:
        """Tick, and tell whether this beat leads."""
        self.tick()
        return self._candidacy is not None and self._candidacy.lease is not None

    def work(self) -> list[str]:
        """Tick until nothing is due, and give what was sent."""
        while self.tick() == 0:
            pass
        return self.sent


class Beats:
    """Beats that share a database and an election, each with a client of its own."""

    def __init__(self, lab: Lab, stack: ExitStack) -> None:
        self._lab = lab
        self._stack = stack

    def start(self, client: lockfast.Client | None = None) -> Recording:
        """Make one that follows, or leads if it is the first."""
        app = self._stack.enter_context(Celery("beats", broker="memory://", set_as_current=False))
        app.conf.result_expires = None  # no entry of Celery's own
        app.conf.lockfast_beat = (client or self._lab.connect()).election("beat", ttl=TTL)
        beat = Recording(app=app)
        beat.sent = []
        self._stack.callback(beat.close)
        return beat

    def leader(self, client: lockfast.Client | None = None) -> Recording:
        """Make one that leads."""
        beat = self.start(client)
        wait_until(beat.leads, "it leads")
        return beat


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with Postgres() as server:
        configure(server.url)
        call_command("migrate", verbosity=0)
        yield server
        connection.close()


@pytest.fixture
def beats(lockfast_lab: Lab, database: Postgres) -> Iterator[Beats]:
    configure(database.url)
    PeriodicTask.objects.all().delete()
    with ExitStack() as stack:
        yield Beats(lockfast_lab, stack)


def hourly(ago: timedelta, name: str = "hourly") -> None:
    """Store an entry that runs every hour, and ran last so long ago."""
    interval, _ = IntervalSchedule.objects.get_or_create(every=1, period="hours")
    PeriodicTask.objects.create(
        name=name, task=name, interval=interval, last_run_at=datetime.now(UTC) - ago
    )


def entry(beat: Recording) -> Any:  # noqa: ANN401  # django-celery-beat ships no types
    return beat.schedule["hourly"]


def last_run(name: str = "hourly") -> datetime:
    found = PeriodicTask.objects.get(name=name).last_run_at
    assert isinstance(found, datetime)
    return found


def test_the_leader_sends_what_is_due_and_stores_that_it_did(beats: Beats) -> None:
    hourly(ago=2 * HOUR)
    leader, follower = beats.leader(), beats.start()
    assert leader.work() == ["hourly"]
    assert follower.work() == []
    assert follower.tick() == leading.LOOK
    assert datetime.now(UTC) - last_run() < HOUR


def test_a_beat_that_follows_sends_no_queries(beats: Beats) -> None:
    hourly(ago=2 * HOUR)
    _, follower = beats.leader(), beats.start()
    with CaptureQueriesContext(connection) as queries:
        for _ in range(3):
            assert follower.tick() == leading.LOOK
    assert len(queries) == 0


def test_the_next_leader_does_not_send_again_what_was_sent(lockfast_lab: Lab, beats: Beats) -> None:
    for name in ("a", "b"):  # Celery stores the first one at once, in any case
        hourly(ago=2 * HOUR, name=name)
    client = lockfast_lab.connect()
    first, second = beats.leader(client), beats.start()
    second.tick()
    assert sorted(first.work()) == ["a", "b"]
    with lockfast_lab.pause(client):  # killed: nothing of it is stored later
        lockfast_lab.clock.advance(TTL)
        wait_until(second.leads, "the next leads")
        assert second.work() == []


def test_what_a_leader_was_about_to_send_when_it_was_stopped_is_sent_by_the_next(
    beats: Beats,
) -> None:
    leader, follower = beats.leader(), beats.start()
    follower.tick()
    hourly(ago=2 * HOUR)
    leader.fails = SystemExit()  # as Celery's handler of SIGTERM, after it has closed the scheduler
    with pytest.raises(SystemExit):
        leader.work()
    leader.close()
    wait_until(follower.leads, "the next leads")
    assert follower.work() == ["hourly"]


def test_what_the_broker_refused_counts_as_sent_as_in_celery(beats: Beats) -> None:
    leader = beats.leader()
    hourly(ago=2 * HOUR)
    leader.fails = ConnectionError()
    assert leader.work() == []
    assert datetime.now(UTC) - last_run() < HOUR


def test_the_next_leader_sends_what_came_due_while_nobody_led(
    lockfast_lab: Lab, beats: Beats
) -> None:
    hourly(ago=0 * HOUR)
    client = lockfast_lab.connect()
    first, second = beats.leader(client), beats.start()
    second.tick()
    assert first.work() == []
    with lockfast_lab.pause(client):
        lockfast_lab.clock.advance(TTL)
        PeriodicTask.objects.update(last_run_at=datetime.now(UTC) - HOUR)  # an hour has passed
        wait_until(second.leads, "the next leads")
        assert second.work() == ["hourly"]


def test_the_next_leader_knows_entries_that_were_added_while_it_followed(beats: Beats) -> None:
    leader, follower = beats.leader(), beats.start()
    follower.tick()
    hourly(ago=2 * HOUR, name="added")
    leader.close()
    wait_until(follower.leads, "the next leads")
    assert follower.work() == ["added"]


def test_a_beat_that_leads_again_knows_what_was_sent_meanwhile(
    lockfast_lab: Lab, beats: Beats
) -> None:
    hourly(ago=0 * HOUR)
    client = lockfast_lab.connect()
    first, second = beats.leader(client), beats.start()
    first.work()
    second.tick()
    with lockfast_lab.pause(client):
        lockfast_lab.clock.advance(TTL)
        PeriodicTask.objects.update(last_run_at=datetime.now(UTC) - HOUR)  # an hour has passed
        entry(first).last_run_at -= HOUR
        first.populate_heap()
        wait_until(second.leads, "another leads")
        assert second.work() == ["hourly"]
    wait_until(lambda: not first.leads(), "it knows that it does not")
    second.close()
    wait_until(first.leads, "it leads again")
    assert first.work() == []


def test_a_leader_that_was_stopped_sends_nothing_when_it_goes_on(
    lockfast_lab: Lab, beats: Beats
) -> None:
    hourly(ago=0 * HOUR)
    client = lockfast_lab.connect()
    beat = beats.leader(client)
    with lockfast_lab.pause(client):
        lockfast_lab.clock.advance(TTL)
        PeriodicTask.objects.update(last_run_at=datetime.now(UTC) - HOUR)
        assert beat.tick() == leading.LOOK
        assert beat.sent == []


def test_a_beat_that_stores_late_does_not_put_an_older_time_back(beats: Beats) -> None:
    hourly(ago=0 * HOUR)
    beat = beats.leader()
    late = next(entry(beat))  # sent, and paused before it was stored
    later = late.model.last_run_at + timedelta(seconds=30)
    PeriodicTask.objects.update(last_run_at=later)  # by the next leader
    late.save()
    assert last_run() == later
    PeriodicTask.objects.update(last_run_at=late.model.last_run_at - timedelta(seconds=1))
    late.save()
    assert last_run() == late.model.last_run_at
    assert PeriodicTask.objects.get(name="hourly").total_run_count == 1


def test_connections_that_died_while_a_beat_followed_are_replaced(
    beats: Beats, database: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader, follower = beats.leader(), beats.start()
    follower.tick()
    leader.close()
    monkeypatch.setitem(connection.settings_dict, "CONN_MAX_AGE", None)
    connection.close()
    hourly(ago=2 * HOUR)  # opens a connection that stays
    database.command(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
    )
    wait_until(follower.leads, "the next leads")
    assert follower.work() == ["hourly"]


def test_what_could_not_be_stored_is_stored_later_and_not_sent_again(
    beats: Beats, database: Postgres
) -> None:
    hourly(ago=0 * HOUR, name="first")  # django-celery-beat does not notice the first change ever
    leader, follower = beats.leader(), beats.start()
    follower.tick()
    leader.work()
    hourly(ago=2 * HOUR)
    leader.meanwhile = database.stop
    assert leader.work() == ["hourly"]
    database.start()
    connection.close()
    assert datetime.now(UTC) - last_run() > HOUR
    leader._last_full_sync -= 10 * HOUR  # it reads the schedule again, as it does every 5 minutes
    assert leader.work() == ["hourly"]
    assert datetime.now(UTC) - last_run() < HOUR
    leader.close()
    wait_until(follower.leads, "the next leads")
    assert follower.work() == []


def test_a_beat_that_leads_while_the_database_is_down_waits_for_it(
    beats: Beats, database: Postgres
) -> None:
    hourly(ago=0 * HOUR)
    hourly(ago=2 * HOUR, name="late")
    leader, follower = beats.leader(), beats.start()
    follower.tick()
    assert leader.work() == ["late"]
    entry(follower).last_run_at -= 5 * HOUR  # it has followed for hours
    leader.close()
    database.stop()
    try:
        wait_until(follower.leads, "the next leads")
        assert follower.tick() == leading.LOOK
        assert follower.sent == []
    finally:
        database.start()
    assert follower.work() == []
    hourly(ago=2 * HOUR, name="new")
    assert follower.work() == ["new"]
