import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from redis.asyncio import Redis

from lockfast import aio
from lockfast.integrations.starlette import leading

URL = os.environ.get("REDIS_URL", "redis://localhost:6379")


async def poll(lease: aio.AsyncLease) -> None:
    async with Redis.from_url(URL) as data:
        while True:
            lease.ensure_held()
            print(f"worker {os.getpid()} polls, term {lease.token}", flush=True)
            await data.rpush("fastapi:polls", f"{os.getpid()} {lease.token}")
            await asyncio.sleep(1)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    client = aio.connect()  # uses LOCKFAST_URL
    async with client, leading(app, client.election("poll", ttl=3), poll):
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/leader")
async def leader() -> dict[str, int | None]:
    lease = app.state.leader.lease
    return {"pid": os.getpid(), "term": lease.token if lease else None}
