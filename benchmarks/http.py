"""Locks by plain HTTP, against bare posts to an application under the same server."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, Self

import uvicorn

from benchmarks.rounds import interleave
from benchmarks.stage import Result, Stage
from benchmarks.workers import answer, orders, worker
from tests.servers import Replica, free_port

CLIENTS = 50  # connections
PROCESSES = 2
TURN = 1.0  # seconds
REPLY = json.dumps({"handle": "x" * 180, "left": 30.0, "valid": 29.7}).encode()  # as a grant
END = b"\r\n\r\n"
LENGTH = b"content-length: "


def run(stage: Stage) -> Result:
    clients = stage.count(CLIENTS, 8)
    port = free_port()
    with (
        stage.against.start() as server,
        Replica(server.url) as replica,
        ExitStack() as stack,
    ):
        stack.enter_context(worker(_serve, port))
        stage.say(f"{clients} connections, in {PROCESSES} processes")
        crowds = {
            name: [
                stack.enter_context(worker(_clients, at, clients // PROCESSES, number, pairs))
                for number in range(PROCESSES)
            ]
            for name, at, pairs in (("locks", replica.port, True), ("bare", port, False))
        }
        turns = {name: _turn(pipes, stage.pick(TURN, 0.2)) for name, pipes in crowds.items()}
        found = interleave(turns, stage.count(20, 2), stage.say)
    # A pair is two requests. So are two bare posts.
    both = zip(found["locks"], found["bare"], strict=True)
    rates = {name: round(median(rates)) for name, rates in found.items()}
    return Result(
        figures={
            "ratio_to_bare": round(median(pairs / posts for pairs, posts in both), 3),
            "clients": clients,
            "pairs_per_second": rates,
        },
        head=(f"{clients} connections", "pairs/s"),
        rows=[(name, f"{rate:,}") for name, rate in rates.items()],
    )


def _turn(pipes: list[Connection], seconds: float) -> Callable[[], float]:
    def turn() -> float:
        for pipe in pipes:
            pipe.send(seconds)
        count: int = sum(answer(pipe) for pipe in pipes)
        return count / seconds

    return turn


# --- what the processes do ----------------------------------------------------------------------


async def _bare(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  # of ASGI
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(REPLY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": REPLY})


def _serve(pipe: Connection, port: int) -> None:
    """Serve bare posts, with the parser and the loop that the service has."""
    server = uvicorn.Server(
        uvicorn.Config(
            _bare, port=port, http="h11", lifespan="off", log_config=None, access_log=False
        )
    )
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    for _ in orders(pipe):
        pass


def _clients(pipe: Connection, port: int, count: int, number: int, pairs: bool) -> None:  # noqa: FBT001  # pickled
    asyncio.run(_take_turns(pipe, port, count, number, pairs=pairs))


async def _take_turns(pipe: Connection, port: int, count: int, number: int, *, pairs: bool) -> None:
    lines = [await Line.to(port) for _ in range(count)]
    commands = orders(pipe)
    while (seconds := await asyncio.to_thread(next, commands, None)) is not None:
        end = time.monotonic() + seconds
        work = (
            _pairs(line, f"client {number} {place}", end, pairs=pairs)
            for place, line in enumerate(lines)
        )
        pipe.send(sum(await asyncio.gather(*work)))
    for line in lines:
        line.close()


async def _pairs(line: Line, name: str, end: float, *, pairs: bool) -> int:
    """Make pairs of requests until the time is over, and return how many these were."""
    count = 0
    wanted = json.dumps({"name": name, "ttl": 30}).encode()
    while time.monotonic() < end:
        granted = await line.post(b"/v1/acquire", wanted)
        body = granted if pairs else REPLY
        await line.post(b"/v1/release", body)
        count += 1
    return count


class Line(asyncio.Protocol):
    """A connection of the cheapest HTTP client, so that the server is what is measured."""

    def __init__(self) -> None:
        self._held = b""
        self._reply: asyncio.Future[bytes] | None = None

    @classmethod
    async def to(cls, port: int) -> Self:
        loop = asyncio.get_running_loop()
        _, line = await loop.create_connection(cls, "127.0.0.1", port)
        return line

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, error: Exception | None) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error or ConnectionError("the server has ended it"))

    def data_received(self, data: bytes) -> None:
        self._held += data
        head, end, rest = self._held.partition(END)
        if not end:
            return
        length = int(head.lower().partition(LENGTH)[2].partition(b"\r\n")[0])
        if len(rest) >= length:
            self._held = b""
            assert b" 200 " in head[:16], head
            assert self._reply is not None
            self._reply.set_result(rest)

    def post(self, path: bytes, body: bytes) -> asyncio.Future[bytes]:
        """Send a request, and return its reply."""
        return self._ask(
            b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
            % (path, len(body), body)
        )

    def get(self, path: bytes) -> asyncio.Future[bytes]:
        """Send a request, and return its reply."""
        return self._ask(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)

    def _ask(self, request: bytes) -> asyncio.Future[bytes]:
        self._reply = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._reply

    def close(self) -> None:
        self._transport.close()
