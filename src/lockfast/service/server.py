"""Runs a replica under uvicorn, until a signal ends it."""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import InvalidState

from lockfast.engines.remote.messages import LARGEST
from lockfast.service.access import is_loopback
from lockfast.service.app import App
from lockfast.service.replica import Replica

log = logging.getLogger("lockfast")
DRAINING = 5.0  # seconds for clients to leave
FLUSHING = 2  # seconds for uvicorn to end what is left
REFUSED = "ASGI callable returned without completing handshake."
"""What uvicorn logs, as an error, about each WebSocket that `App` refuses with a status."""
PINGS = 1_000  # that a client may send at once. A client of lockfast sends one for each caller


class Protocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, which ends when a client floods it with pings. uvicorn answers each one
    at once, also if nobody reads the answers, and all other clients wait meanwhile.
    """

    _pings = 0

    def data_received(self, data: bytes) -> None:
        """Handle bytes of the client."""
        if self.writable.is_set():
            self._pings = 0
        super().data_received(data)

    def handle_ping(self) -> None:
        """Answer a ping, unless there were too many."""
        self._pings += 1
        if self._pings > PINGS:
            self.transport.abort()
        else:
            super().handle_ping()


class Server(uvicorn.Server):
    """uvicorn, with an end at which the clients have left before their connections are cut."""

    def __init__(self, replica: Replica, host: str, port: int) -> None:
        """Prepare a server. Port 0: any free one, see `address`.

        Raises `ValueError` if other machines could connect to the host.
        """
        if not is_loopback(host):
            raise ValueError(
                f"{host!r} is not an address of this machine alone. Other addresses come with TLS "
                "and API keys, which this version does not have yet: use 127.0.0.1."
            )
        self._replica = replica
        super().__init__(
            uvicorn.Config(
                App(replica),
                host=host,
                port=port,
                ws=Protocol,
                ws_max_size=LARGEST,
                ws_per_message_deflate=False,
                lifespan="off",  # `shutdown` closes the replica
                access_log=False,
                log_config=None,
                log_level=logging.WARNING,  # below that, it has a line for each connection
                server_header=False,
                proxy_headers=False,  # any program on this machine could send them
                timeout_graceful_shutdown=FLUSHING,
            )
        )
        logging.getLogger("uvicorn").parent = logging.getLogger("lockfast")
        logging.getLogger("uvicorn.error").addFilter(_is_news)

    @property
    def address(self) -> tuple[str, int]:
        """The address that it listens on, once it has started."""
        name = self.servers[0].sockets[0].getsockname()
        return name[0], name[1]

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Send the clients away, then end. Meanwhile it still listens, so that `/readyz` can tell a
        load balancer to choose another replica.
        """
        await self._replica.drain(DRAINING, lambda: self.force_exit)
        try:
            await super().shutdown(sockets)
        except InvalidState as error:  # by uvicorn, if a client closes and has not read everything
            log.info("a client did not read what was sent to it: %s", error)
        finally:
            await self._replica.close()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """End at SIGTERM and SIGINT. uvicorn's own method sends itself the signal again at the end,
        so that a drained replica would look like one that was killed.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.signal(number, self.handle_exit) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg != REFUSED


def serve(url: str | None, host: str, port: int) -> None:
    """Run a replica in front of the engine with this URL, until SIGTERM or SIGINT."""
    Server(Replica.of(url), host, port).run()
