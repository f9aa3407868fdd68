"""Bare WebSocket echoes under uvicorn, which runs the service too: the floor of its CPU time."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, Self

import uvicorn
from websockets.asyncio.client import ClientConnection, connect

from benchmarks.workers import answer, orders, worker
from tests.servers import free_port

MESSAGE = "x" * 150  # about as many bytes as a claim
TURN = 1.0  # seconds of one turn


class Echo:
    """An echo server, and processes with clients of it."""

    def __init__(self, processes: int, clients: int) -> None:
        self._port = free_port()
        self._processes = processes
        self._clients = clients
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._server = self._stack.enter_context(worker(_serve, self._port))
        each = self._clients // self._processes
        self._pipes = [
            self._stack.enter_context(worker(_send, self._port, each))
            for _ in range(self._processes)
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def turn(self, seconds: float) -> float:
        """Return the microseconds of the server's CPU for each echo."""
        before = self._cpu()
        for pipe in self._pipes:
            pipe.send(seconds)
        count: int = sum(answer(pipe) for pipe in self._pipes)
        return (self._cpu() - before) / count * 1e6

    def _cpu(self) -> float:
        self._server.send("cpu")
        seconds: float = answer(self._server)
        return seconds


# --- what the processes do ----------------------------------------------------------------------


async def _echo(_scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  # of ASGI
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


def _serve(pipe: Connection, port: int) -> None:
    server = uvicorn.Server(
        uvicorn.Config(
            _echo,
            port=port,
            ws="websockets-sansio",
            ws_per_message_deflate=False,
            lifespan="off",
            log_config=None,
        )
    )
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    for _ in orders(pipe):
        pipe.send(time.process_time())


def _send(pipe: Connection, port: int, count: int) -> None:
    asyncio.run(_take_turns(pipe, f"ws://127.0.0.1:{port}", count))


async def _take_turns(pipe: Connection, url: str, count: int) -> None:
    lines = [await connect(url, compression=None) for _ in range(count)]
    commands = orders(pipe)
    while (seconds := await asyncio.to_thread(next, commands, None)) is not None:
        end = time.monotonic() + seconds
        pipe.send(sum(await asyncio.gather(*(_loop(line, end) for line in lines))))
    for line in lines:
        await line.close()


async def _loop(line: ClientConnection, end: float) -> int:
    count = 0
    while time.monotonic() < end:
        await line.send(MESSAGE)
        await line.recv()
        count += 1
    return count
