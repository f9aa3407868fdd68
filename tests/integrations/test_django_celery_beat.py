"""django-celery-beat: real beats on a real database, and a broker that is the test's own Redis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import psycopg
import pytest

from tests.integrations.migrating import LONG, Place, place
from tests.servers import Program, wait_until

SENDS = r"Sending due task poll"


@pytest.fixture
def project() -> Iterator[Place]:
    """The example, with its tables."""
    with place("django-celery-beat") as project:
        migrate = ("-m", "django", "migrate", "--settings", "settings")
        project.ended([project.start(*migrate)])
        yield project


def beats(stack: ExitStack, project: Place, count: int) -> list[Program]:
    """Start them all, at the same time."""
    command = ["celery", "--app", "tasks", "beat", "--loglevel", "INFO"]
    env = {
        "PGPORT": str(project.postgres.port),
        "PGUSER": "postgres",
        "REDIS_URL": project.redis.url,
    }
    started = [Program(command, project.home, "beat: Starting", env) for _ in range(count)]
    for each in started:
        stack.callback(each.close)
        each.launch()
    for each in started:
        each.start()
    return started


def sent(project: Place) -> int:
    """Tell how many messages came to the broker: nobody takes them out of its queue."""
    found = project.redis.command("LLEN", "celery")
    assert isinstance(found, int)
    return found


def stored(project: Place) -> int:
    """Tell how often the entry was sent, by the database."""
    with psycopg.connect(project.postgres.url.removesuffix("postgres") + "app") as connection:
        ((count,),) = connection.execute(
            "SELECT total_run_count FROM django_celery_beat_periodictask WHERE name = 'poll'"
        ).fetchall()
    assert isinstance(count, int)
    return count


def test_of_two_beats_one_sends_and_when_it_ends_the_other_continues(project: Place) -> None:
    with ExitStack() as stack:
        pair = beats(stack, project, 2)
        wait_until(lambda: sum(each.says(SENDS) for each in pair) > 2, "one sends", LONG)
        first, second = sorted(pair, key=lambda each: -each.says(SENDS))
        assert second.says(SENDS) == 0
        first.kill()
        # It was killed at any moment: a message may be sent and not stored, but not the reverse.
        assert sent(project) - 1 <= stored(project) <= sent(project)
        wait_until(lambda: second.says(SENDS) > 1, "the other sends, a ttl later", LONG)
        first.restart()
        second.stop()
        assert second.says("this beat no longer leads") == 1
        wait_until(lambda: first.says(SENDS) > 0, "one that ends hands over", LONG)
        first.stop()
        # Those that were stopped may have been at the same point.
        assert sent(project) - 3 <= stored(project) <= sent(project)
