"""The app of the page on locks in FastAPI requests, with slow paths that tests interrupt."""

from __future__ import annotations

import asyncio
import time

import redis
from app import URL, InvoiceLock, app  # type: ignore[import-not-found]  # the page's, by its folder


async def slow(invoice_id: int, seconds: float, lease: InvoiceLock) -> int:
    """Record whether the work was cancelled or done."""
    key = f"done:{invoice_id}"
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        key = f"cancelled:{invoice_id}"
        raise
    finally:
        await app.state.data.rpush(key, lease.token)
    return int(lease.token)


def thread(invoice_id: int, seconds: float, lease: InvoiceLock) -> int:
    """Record when a thread is done, which nothing can cancel."""
    time.sleep(seconds)
    with redis.Redis.from_url(URL) as data:
        data.rpush(f"done:{invoice_id}", lease.token)
    return int(lease.token)


app.add_api_route("/slow/{invoice_id}", slow, methods=["POST"])
app.add_api_route("/thread/{invoice_id}", thread, methods=["POST"])
