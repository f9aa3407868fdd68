"""Two tasks, and a schedule that several beats can share."""

import os

import redis
from celery import Celery

import lockfast
from lockfast.integrations.celery import once

URL = os.environ.get("REDIS_URL", "redis://localhost:6379")
app = Celery("tasks", broker=URL)
data = redis.Redis.from_url(URL)
client = lockfast.connect(URL)  # each worker process opens its own connection


@app.task
@once(client, "report:{day}", ttl=600, at_least=600)
def report(day: str, lease: lockfast.Lease = lockfast.INJECTED) -> None:
    data.rpush(f"report:{day}", lease.token)


@app.task
def poll() -> None:
    data.incr("celery:polls")


app.conf.beat_schedule = {"poll": {"task": "tasks.poll", "schedule": 1.0}}
app.conf.beat_scheduler = "lockfast.integrations.celery:LeadingScheduler"
app.conf.lockfast_beat = client.election("beat", ttl=3)
