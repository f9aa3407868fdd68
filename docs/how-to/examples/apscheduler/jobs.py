import os
import signal
import sys

import redis
from apscheduler.schedulers.blocking import BlockingScheduler

import lockfast
from lockfast.integrations.apscheduler import leading

URL = "redis://localhost:6379"
data = redis.Redis.from_url(os.environ.get("REDIS_URL", URL))
client = lockfast.connect(os.environ.get("LOCKFAST_URL", URL))
scheduler = BlockingScheduler()
leader = leading(scheduler, client.election("jobs", ttl=3))


@scheduler.scheduled_job("interval", seconds=1)
def poll() -> None:
    if lease := leader.lease:
        print(f"process {os.getpid()} runs the job, term {lease.token}", flush=True)
        data.rpush("apscheduler:polls", f"{os.getpid()} {lease.token}")


signal.signal(signal.SIGTERM, lambda *_: sys.exit())  # leaves the block, and resigns
with leader:
    scheduler.start()
