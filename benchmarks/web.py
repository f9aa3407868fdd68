"""The dashboard with 10,000 locks and 200 viewers, against a bare page of the same framework."""

from __future__ import annotations

import asyncio
import random
import re
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, NamedTuple
from urllib.request import urlopen

import jinja2
import uvicorn

import lockfast.web
from benchmarks.http import Line
from benchmarks.rounds import interleave, percentile
from benchmarks.stage import Result, Stage
from benchmarks.workers import answer, orders, worker
from lockfast import aio
from lockfast.web.listing import PAGE as ROWS
from tests.servers import Redis, free_port, wait_until

LOCKS, VIEWERS = 10_000, 200
PROCESSES = 2  # of viewers
PAUSE = 0.4  # seconds between an answer and a viewer's next question, as in the page's script
TURN = 4.0  # seconds
WATCHED = 10.0  # seconds
PAGE, FRAGMENT, BARE = b"/", b"/table?q=&sort=name&page=1", b"/bare"
LOOK = re.compile(rb'data-look="(\d+)"')
TEMPLATE = """<!doctype html><title>bare</title><table>{% for row in rows %}
<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>{% endfor %}</table>
<!--{{ rest }}-->"""


class Watched(NamedTuple):
    """What viewers that wait for news have cost the engine."""

    scans: float
    """Complete scans per second."""
    answers: float
    """News per viewer and second."""


def run(stage: Stage) -> Result:
    viewers, locks = stage.count(VIEWERS, 10), stage.count(LOCKS, 300)
    ports = free_port(), free_port()
    with stage.against.start() as server, ExitStack() as stack:
        stage.say(f"{locks:,} held locks")
        stack.enter_context(worker(_hold, server.url, locks))
        calls = _calls_of_a_scan(server)
        stack.enter_context(worker(_dashboard, ports[0], server.url))
        size = len(_read(ports[0], PAGE))
        stack.enter_context(worker(_bare, ports[1], size))
        crowds = [
            stack.enter_context(worker(_viewers, number, viewers // PROCESSES))
            for number in range(PROCESSES)
        ]
        asked = {
            "page": (ports[0], PAGE),
            "fragment": (ports[0], FRAGMENT),
            "bare": (ports[1], BARE),
        }
        stage.say(f"{viewers} viewers, in {PROCESSES} processes; a page has {size:,} bytes")
        turns = {
            name: _turn(crowds, port, path, stage.pick(TURN, 0.5))
            for name, (port, path) in asked.items()
        }
        seconds = stage.pick(WATCHED, 2.0)
        one = _watched(server, calls, crowds[:1], ports[0], 1, seconds)
        all_ = _watched(server, calls, crowds, ports[0], viewers, seconds)
        found = interleave(turns, stage.count(10, 2), stage.say)
    p95 = {name: [percentile(times, 0.95) * 1000 for times in each] for name, each in found.items()}
    ratios = {
        name: round(median(a / b for a, b in zip(p95[name], p95["bare"], strict=True)), 2)
        for name in ("page", "fragment")
    }
    middle = {
        name: round(median(percentile(times, 0.5) * 1000 for times in each), 1)
        for name, each in found.items()
    }
    return Result(
        figures={
            "page_p95_ratio_to_bare": ratios["page"],
            "fragment_p95_ratio_to_bare": ratios["fragment"],
            "p95_ms": {name: round(median(each), 1) for name, each in p95.items()},
            "p50_ms": middle,
            "scans_per_second": round(all_.scans, 2),
            "scans_per_second_of_one_viewer": round(one.scans, 2),
            "news_per_viewer_and_second": round(all_.answers, 2),
            "viewers": viewers,
            "locks": locks,
            "page_bytes": size,
        },
        head=(f"{viewers} viewers, {locks:,} locks", "p50", "p95", "p95, of bare"),
        rows=[
            *(
                (
                    name,
                    f"{middle[name]:.1f} ms",
                    f"{median(p95[name]):.1f} ms",
                    f"{ratios.get(name, 1.0):.2f}",
                )
                for name in asked
            ),
            ("scans per second", f"{one.scans:.2f} for one", f"{all_.scans:.2f} for all", ""),
        ],
    )


def _turn(
    crowds: list[Connection], port: int, path: bytes, seconds: float
) -> Callable[[], list[float]]:
    def turn() -> list[float]:
        for pipe in crowds:
            pipe.send((port, path, seconds))
        return [each for pipe in crowds for each in answer(pipe)]

    return turn


def _watched(  # noqa: PLR0913, PLR0917  # a helper of `run`
    server: Redis, calls: float, crowds: list[Connection], port: int, viewers: int, seconds: float
) -> Watched:
    """Let viewers wait for news as the page's script does, and count what the engine does."""
    before, began = _calls(server), time.monotonic()
    for pipe in crowds:
        pipe.send((port, FRAGMENT, seconds, viewers // len(crowds)))
    news = sum(answer(pipe) for pipe in crowds)
    passed = time.monotonic() - began
    scans = (_calls(server) - before) / calls
    return Watched(scans / passed, news / viewers / passed)


def _calls_of_a_scan(server: Redis) -> float:
    """Return with how many SCAN a client looks at all locks. No viewer may look meanwhile."""
    before = _calls(server)
    with lockfast.connect(server.url) as client:
        client.inspect()
    return _calls(server) - before


def _calls(server: Redis) -> float:
    """Return how many SCAN the server has answered."""
    stat = server.info("commandstats").get("cmdstat_scan", "calls=0")
    return float(stat.partition("calls=")[2].partition(",")[0])


def _read(port: int, path: bytes) -> bytes:
    """Return a page, as soon as it has rows."""
    url = f"http://127.0.0.1:{port}{path.decode()}"
    read: Callable[[], bytes] = lambda: urlopen(url, timeout=30).read()  # noqa: E731  # of ours
    wait_until(lambda: read().count(b"<tr") > ROWS, "the dashboard shows the locks", 60)
    return read()


# --- what the processes do ----------------------------------------------------------------------


def _hold(pipe: Connection, url: str, count: int) -> None:
    asyncio.run(_held(pipe, url, count))


async def _held(pipe: Connection, url: str, count: int) -> None:
    async with aio.connect(url) as client:
        numbers = iter(range(count))

        async def some() -> None:
            for number in numbers:
                lock = client.lock(f"order:{number:05}", ttl=120, purpose="ship it")
                held.append(await lock.acquire(timeout=60))

        held: list[aio.AsyncLease] = []
        await asyncio.gather(*(some() for _ in range(100)))
        await asyncio.to_thread(lambda: list(orders(pipe)))


def _dashboard(pipe: Connection, port: int, url: str) -> None:
    _serve(pipe, port, lockfast.web.app(url))


def _bare(pipe: Connection, port: int, size: int) -> None:
    """Serve a page of the same size: one template with as many rows and cells, escaped."""
    template = jinja2.Environment(autoescape=True).from_string(TEMPLATE)
    rows = [[f"cell {row} {column}" for column in range(8)] for row in range(ROWS)]
    rest = "x" * max(size - len(template.render(rows=rows, rest="")), 0)

    async def app(_scope: Any, _receive: Any, send: Any) -> None:  # noqa: ANN401  # of ASGI
        body = template.render(rows=rows, rest=rest).encode()
        headers = [
            (b"content-type", b"text/html; charset=utf-8"),
            (b"content-length", b"%d" % len(body)),
        ]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    _serve(pipe, port, app, lifespan="off")


def _serve(pipe: Connection, port: int, app: Any, **more: Any) -> None:  # noqa: ANN401  # of uvicorn
    server = uvicorn.Server(
        uvicorn.Config(app, port=port, ws="none", log_config=None, access_log=False, **more)
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    for _ in orders(pipe):
        pass
    server.should_exit = True
    thread.join(10)


def _viewers(pipe: Connection, number: int, count: int) -> None:
    asyncio.run(_look(pipe, number, count))


async def _look(pipe: Connection, number: int, count: int) -> None:
    commands: Iterator[Any] = orders(pipe)
    chance = random.Random(number)  # noqa: S311  # no secret
    while (command := await asyncio.to_thread(next, commands, None)) is not None:
        port, path, seconds, *watching = command
        lines = [await Line.to(port) for _ in range(watching[0] if watching else count)]
        end = time.monotonic() + seconds
        delays = [chance.random() * PAUSE for _ in lines]
        look: Callable[..., Coroutine[Any, Any, list[float]]] = _news if watching else _pages
        found = await asyncio.gather(
            *(look(line, path, end, delay) for line, delay in zip(lines, delays, strict=True))
        )
        for line in lines:
            line.close()
        pipe.send(sum(map(len, found)) if watching else [each for times in found for each in times])


async def _pages(line: Line, path: bytes, end: float, delay: float) -> list[float]:
    """Ask for a page again and again, and return how long each took."""
    await asyncio.sleep(delay)
    times = []
    while (began := time.monotonic()) < end:
        await line.get(path)
        times.append(time.monotonic() - began)
        await asyncio.sleep(PAUSE)
    return times


async def _news(line: Line, path: bytes, end: float, delay: float) -> list[float]:
    """Ask for what is newer than the last answer, again and again. Return the looks' numbers."""
    await asyncio.sleep(delay)
    seen: list[float] = []
    asked = path
    while time.monotonic() < end:
        shown = LOOK.search(await line.get(asked))
        assert shown is not None
        seen.append(int(shown[1]))
        asked = b"%b&after=%b" % (path, shown[1])
        await asyncio.sleep(PAUSE)
    return seen
