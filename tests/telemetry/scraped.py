"""A process that locks on Redis in both modes, and shows its metrics over HTTP."""

from __future__ import annotations

import asyncio
import sys
import threading

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import start_http_server

import lockfast
from lockfast import aio, telemetry
from lockfast.guards.mark import refused


def threads(url: str, ready: threading.Barrier) -> None:
    """Hold, wait, lose, be refused."""
    with lockfast.connect(url) as client:
        client.lock("pair:threads").acquire().release()
        stale = client.lock("stale:threads").acquire()
        refused(stale, stale.token + 1)
        held = client.lock("held:threads").acquire()
        other = threading.Thread(target=lambda: client.lock(held.name).acquire().release())
        other.start()
        ready.wait()  # scraped
        ready.wait()
        held.release()
        other.join()


async def tasks(url: str, ready: threading.Barrier) -> None:
    """Do the same in tasks."""
    async with aio.connect(url) as client:
        await (await client.lock("pair:asyncio").acquire()).release()
        stale = await client.lock("stale:asyncio").acquire()
        refused(stale, stale.token + 1)
        held = await client.lock("held:asyncio").acquire()

        async def wait() -> None:
            await (await client.lock(held.name).acquire()).release()

        other = asyncio.create_task(wait())
        await asyncio.to_thread(ready.wait)  # scraped
        await asyncio.to_thread(ready.wait)
        await held.release()
        await other


def main(url: str) -> None:
    """Say the port, and go on until a line comes."""
    provider = MeterProvider(metric_readers=[PrometheusMetricReader()])
    telemetry.instrument(templates=["{what}:threads", "{what}:asyncio"], meter_provider=provider)
    server, serving = start_http_server(0, "127.0.0.1")
    ready = threading.Barrier(3)
    blocking = threading.Thread(target=threads, args=(url, ready))
    looping = threading.Thread(target=lambda: asyncio.run(tasks(url, ready)))
    blocking.start()
    looping.start()
    ready.wait()
    sys.stdout.write(f"{server.server_port}\n")
    sys.stdout.flush()
    sys.stdin.readline()
    ready.wait()
    blocking.join()
    looping.join()
    sys.stdout.write("done\n")
    sys.stdout.flush()
    sys.stdin.readline()
    server.shutdown()
    serving.join()
    server.server_close()
    provider.shutdown()


if __name__ == "__main__":
    main(sys.argv[1])
