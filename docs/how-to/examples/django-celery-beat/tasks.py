import os

import redis
from celery import Celery

import lockfast

URL = os.environ.get("REDIS_URL", "redis://localhost:6379")
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
app = Celery("tasks", broker=URL)
data = redis.Redis.from_url(URL)
client = lockfast.connect(URL)


@app.task
def poll() -> None:
    data.incr("beat:polls")


app.conf.beat_schedule = {"poll": {"task": "tasks.poll", "schedule": 1.0}}
app.conf.beat_scheduler = "lockfast.integrations.celery.database:LeadingDatabaseScheduler"
app.conf.lockfast_beat = client.election("beat", ttl=3)
