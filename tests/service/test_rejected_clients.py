"""A client that no replica accepts tries again after longer and longer pauses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from lockfast.engines import opener
from lockfast.engines.remote.engine import RemoteEngine
from lockfast.port import Engine
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse

LISTENING = 1.0  # seconds
MOST = 10  # attempts in that time. Without the pauses there are hundreds


class Rejecting(BaseHTTPRequestHandler):
    """Answers every handshake as a replica that is about to end."""

    attempts = 0

    def do_GET(self) -> None:  # http.server's
        """Count the attempt, and reject it."""
        type(self).attempts += 1
        self.send_response(503)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's
        """Write nothing to stderr."""


@contextmanager
def rejecting() -> Iterator[tuple[str, type[Rejecting]]]:
    handler = type("Counted", (Rejecting,), {})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"lockfast://127.0.0.1:{server.server_address[1]}", handler
        finally:
            server.shutdown()
            thread.join()


async def listen(engine: Engine) -> None:
    assert isinstance(engine, RemoteEngine)
    engine.hear(engine.client, on=True)
    until = now() + LISTENING
    while now() < until:
        await engine.listen(until)
    await engine.close()


def test_a_blocking_client_that_is_rejected_pauses() -> None:
    with rejecting() as (url, handler):
        drive(listen(opener(parse(url), Threads())()))
        assert 1 < handler.attempts <= MOST


def test_an_asyncio_client_that_is_rejected_pauses() -> None:
    with rejecting() as (url, handler):

        async def main() -> None:
            runtime = Aio()
            runtime.enter()
            await listen(opener(parse(url), runtime)())

        asyncio.run(main())
        assert 1 < handler.attempts <= MOST
