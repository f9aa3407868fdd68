import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import redis
from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse
from redis.asyncio import Redis

from lockfast import EngineError, LockfastError, NotAcquired, StaleToken, aio
from lockfast.guards.redis import AsyncRedisGuard, RedisGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379")  # the data


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # One client for all requests of a worker process. It uses LOCKFAST_URL.
    async with aio.connect() as client, Redis.from_url(URL) as data:
        app.state.client = client
        app.state.data = data
        yield


app = FastAPI(lifespan=lifespan)


async def invoice_lock(invoice_id: int, request: Request) -> AsyncIterator[aio.AsyncLease]:
    lock = request.app.state.client.lock(f"invoice:{invoice_id}", ttl=10, timeout=2)
    try:
        lease = await lock.acquire()
    except NotAcquired as error:
        raise HTTPException(423, "This invoice is locked.", {"Retry-After": "2"}) from error
    except EngineError as error:
        raise HTTPException(503, "The lock server is down.", {"Retry-After": "5"}) from error
    async with lease:
        if await request.is_disconnected():
            raise HTTPException(499, "The client has gone.")
        yield lease


# scope="function" releases the lock before FastAPI sends the response, not after it.
InvoiceLock = Annotated[aio.AsyncLease, Depends(invoice_lock, scope="function")]


@app.exception_handler(StaleToken)
async def stale(_: Request, __: StaleToken) -> JSONResponse:
    return JSONResponse({"detail": "The write was rejected: a later request has the lock."}, 409)


@app.exception_handler(LockfastError)
async def failed(_: Request, __: LockfastError) -> JSONResponse:
    return JSONResponse({"detail": "The outcome is unknown: the lock was lost."}, 500)


@app.post("/invoices/{invoice_id}/lines")
async def add(invoice_id: int, amount: int, lease: InvoiceLock) -> dict[str, int]:
    data, key = app.state.data, f"{{invoice:{invoice_id}}}:total"
    guard = AsyncRedisGuard(data)
    await guard.seal(lease)  # before the first read
    total = int(await data.get(key) or 0) + amount
    await guard.apply(lease, [("SET", key, total)])
    return {"total": total}


@app.delete("/invoices/{invoice_id}")
def clear(invoice_id: int, lease: InvoiceLock) -> None:
    with redis.Redis.from_url(URL) as data:
        RedisGuard(data).apply(lease, [("DEL", f"{{invoice:{invoice_id}}}:total")])
