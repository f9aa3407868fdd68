"""Tasks of the tests, for the workers of the example: they fail, wait, and are killed."""

from __future__ import annotations

import os
from typing import Any

import redis
from celery import shared_task

import lockfast
from lockfast.integrations.celery import once
from tests.servers import wait_until

LONG = 30.0
URL = os.environ["REDIS_URL"]
client = lockfast.connect(URL)
books = redis.Redis.from_url(URL)


@shared_task(bind=True, max_retries=1)
@once(client, "flaky:{self.request.id}", ttl=600, at_least=600)
def flaky(self: Any, name: str) -> None:  # noqa: ANN401  # a task, whose class is Celery's
    books.rpush(name, self.request.retries)
    if self.request.retries == 0:
        try:
            raise self.retry(countdown=0)
        finally:  # the retry is under way, and comes before this run has ended
            lock = client.lock(f"flaky:{self.request.id}")
            wait_until(lambda: len(lock.queue()) == 2, "the retry waits", LONG)


@shared_task(bind=True, max_retries=0)
@once(client, "patient", ttl=2, at_least=0, on_busy="retry")
def patient(self: Any, place: str) -> None:  # noqa: ANN401  # a task, whose class is Celery's
    assert self.request.retries == 0
    books.rpush("patient", place)
    if place == "a":
        books.blpop(["never"])


@shared_task
@once(client, "inner", ttl=600, at_least=0)
def inner() -> None:
    with client.lock("inner's own", timeout=0), client.lock("inner's own", timeout=0):
        pass
