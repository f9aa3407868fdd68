"""Runs a replica under uvicorn, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from math import ceil
from types import FrameType

import uvicorn

from lockfast.engines.remote.messages import LARGEST
from lockfast.service.admission import Admission
from lockfast.service.app import App, Dashboard
from lockfast.service.audit import Audit
from lockfast.service.binding import forget, listen
from lockfast.service.config import Config, changed
from lockfast.service.credentials import Credentials, load
from lockfast.service.handshake import Entrance
from lockfast.service.http.seal import new_key
from lockfast.service.keep_alive import LIMIT, Resting
from lockfast.service.metrics_page import page
from lockfast.service.replica import Replica
from lockfast.service.rereading import again, present
from lockfast.service.upgrade import Http, Upgrade
from lockfast.service.usage import Usages
from lockfast.service.wire import Wire
from lockfast.service.workers import Supervisor, Worker

log = logging.getLogger("lockfast")
DRAINING = 5.0  # seconds for clients to leave, after those over which they are spread
TICKS = 10  # of uvicorn, 0.1 s each, between two pages of figures for other workers
FLUSHING = 2  # seconds for uvicorn to end what is left
UNINTERESTING = {
    "ASGI callable returned without completing handshake.",  # `App` has refused it with a status
    "Invalid HTTP request received.",
    "Unsupported upgrade request.",
}
"""What uvicorn logs when a stranger sends something else. A flood of that must not fill the log."""


class Server(uvicorn.Server):
    """uvicorn, with an end at which the clients have left before their connections are cut."""

    def __init__(  # noqa: PLR0913, PLR0917  # what a worker has from its parent
        self,
        replica: Replica,
        config: Config,
        reread: Callable[[], Config] | None = None,
        listening: list[socket.socket] | None = None,
        worker: Worker | None = None,
        handle_key: bytes | None = None,
    ) -> None:
        """Listen, so that clients can connect, and wait until it runs. `reread`: returns the
        configuration as it is now. SIGHUP calls it. `listening`: the sockets, if they
        are open already. `handle_key`: seals the handles of HTTP clients if the configuration names
        no key for that. All workers have the same one.

        Raises `ValueError` if the configuration cannot be used, or if other machines could
        connect without TLS or an API key.
        """
        if worker is not None:
            log.addFilter(worker.sign)
        self.credentials = load(config)
        if worker is None:  # the parent has said it for all workers
            _warn(self.credentials)
        self._replica = replica
        self._settings = config
        self._reread = reread
        self._hung_up = False
        self._worker = worker
        self._expired = False
        """Whether the log says that the certificate has expired."""
        self._handle_keys = (handle_key or new_key(),)
        handle_keys = self.credentials.handle_keys or self._handle_keys
        self._app = App(replica, _admission(self.credentials, None), handle_keys)
        replica.signing = self.credentials.signing
        if config.web:
            self._app.dashboard = _dashboard(config, self._app, replica)
        if config.audit_file is not None:
            replica.watch.audit = Audit(config.audit_file, self._unlogged)
        super().__init__(
            uvicorn.Config(
                self._app,
                ws=Upgrade,
                ws_max_size=LARGEST,
                ws_per_message_deflate=False,
                lifespan="off",  # `shutdown` closes the replica
                access_log=False,
                log_config=None,
                log_level=logging.WARNING,  # below that, it has a line for each connection
                server_header=False,
                proxy_headers=False,  # any client could send them
                timeout_graceful_shutdown=FLUSHING,
                timeout_keep_alive=ceil(LIMIT),  # `Resting` ends a connection that sends no request
            )
        )
        self._resting = Resting()
        make = lambda arrival: Http(  # noqa: E731
            arrival, self._resting, replica.figures, self.config, self.server_state
        )
        self._entrance = Entrance(make, self.credentials.tls)
        self._sockets = listening or listen(config)
        logging.getLogger("uvicorn").parent = logging.getLogger("lockfast")
        logging.getLogger("uvicorn.error").addFilter(_is_news)

    @property
    def address(self) -> tuple[str, int]:
        """The first address that it listens on. On a unix socket, its path and 0."""
        name = self._sockets[0].getsockname()
        return (name, 0) if isinstance(name, str) else (name[0], name[1])

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  # uvicorn's
        """Accept connections, by our own entrance."""
        self.servers = []
        self._entrance.open(self._sockets)
        self.started = True
        if self._worker is not None:
            parent = self._worker.parent
            asyncio.get_running_loop().add_reader(parent, self._orphaned, parent)
            self._app.page = partial(self._pages, self._worker)
            self._show(self._worker)

    async def on_tick(self, counter: int) -> bool:
        """Reload the configuration if a signal has asked for it. Look after the certificate."""
        if self._hung_up:
            self._hung_up = False
            await self._reload()
        if self._worker is not None and not counter % TICKS:
            self._show(self._worker)
        expires = self.credentials.expires
        if expires is not None and not self._expired and time.time() > expires:
            self._expired = True
            log.warning("the certificate has expired, so no client can connect: renew it, send HUP")
        return await super().on_tick(counter)

    def _pages(self, worker: Worker) -> str:
        """Return the pages of all workers."""
        self._show(worker)
        return worker.board.read()

    def _show(self, worker: Worker) -> None:
        """Show the figures to the other workers."""
        worker.board.put(worker.number, page(self._replica.figures, str(worker.number)))

    def _orphaned(self, parent: int) -> None:
        """End, because the parent was killed, and nobody would end this process."""
        asyncio.get_running_loop().remove_reader(parent)
        self.should_exit = True

    async def _reload(self) -> None:
        """Use the keys and certificates as they are now. If they cannot be used, keep the old."""
        assert self._reread is not None  # noqa: S101  # for mypy
        try:
            new, credentials = await asyncio.to_thread(
                again, self._settings, self.credentials, self._reread
            )
        except (OSError, ValueError) as error:
            log.warning("the configuration was not reloaded, and the old one stays: %s", error)
            return
        for name in changed(self._settings, new):
            log.warning("%s has changed in the configuration: restart the service for that", name)
        self.credentials, self._entrance.tls = credentials, credentials.tls
        self._expired = False
        _warn(credentials)
        self._replica.signing = credentials.signing
        admission = _admission(credentials, self._app.admission.usages)
        ended = self._app.admit(admission, credentials.handle_keys or self._handle_keys)
        if self._replica.watch.audit is not None:
            self._replica.watch.audit.reopen()
        log.warning(
            "the configuration was reloaded. API keys: %d, connections ended: %d",
            len(credentials.keys),
            ended,
        )

    def _unlogged(self, lines: int) -> None:
        self._replica.figures.unlogged.counts[()] += lines

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002  # uvicorn's
        """Send the clients away, then end. Meanwhile it still listens, so that `/readyz` can tell a
        load balancer to choose another replica.
        """
        seconds = DRAINING + self._replica.load.spread()
        await self._replica.drain(seconds, lambda: self.force_exit)
        self._entrance.close()
        if self._worker is None:
            forget(self._settings)
        try:
            await super().shutdown(self._sockets)
        finally:
            for each in list(self.server_state.connections):
                if isinstance(each, Wire):  # its client does not read what was sent to it
                    each.abort()
            await self._app.close()

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
        if self._reread is not None:
            before[signal.SIGHUP] = signal.signal(signal.SIGHUP, self.handle_hang_up)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_hang_up(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # Python's
        """Reload soon."""
        self._hung_up = True


def _dashboard(config: Config, app: App, replica: Replica) -> Dashboard:
    """Return the dashboard. Raise `ImportError` if the extra `web` is missing."""
    try:
        made: Dashboard = import_module("lockfast.service.dashboard").Dashboard(
            config.url, lambda: app.admission, replica.watch, replica.figures
        )
    except ImportError as error:
        raise ImportError(
            f"the dashboard needs {error.name}: pip install 'lockfast[web]'", name=error.name
        ) from error
    return made


def _admission(credentials: Credentials, usages: Usages | None) -> Admission:
    """Return who may connect. `usages`: what subjects use already."""
    found = credentials
    return Admission(found.keys, found.subjects, found.tokens, found.header, usages)


def _warn(credentials: Credentials) -> None:
    for each in credentials.risks:
        log.warning("%s", each)


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg not in UNINTERESTING


def serve(
    config: Config,
    reread: Callable[[], Config] | None = None,
    listening: Callable[[Credentials], object] = bool,
) -> None:
    """Run a replica, or several, until SIGTERM or SIGINT. `listening` is called when clients can
    connect.
    """
    sockets, worker = None, None
    handle_key = new_key()  # before the workers are made: a handle of one is for all of them
    if config.workers > 1:
        credentials = load(config)
        _warn(credentials)
        sockets = listen(config)
        listening(credentials)
        worker = Supervisor(config.workers, reloads=reread is not None).run()
        if worker is None:
            for each in sockets:
                each.close()
            forget(config)
            return
        if reread is not None:
            config = present(config, credentials, reread, worker.parent)
    replica = Replica.of(config.url)
    if "opentelemetry.sdk" in sys.modules:  # loaded by `opentelemetry-instrument`
        import_module("lockfast.service.otel").instrument(replica.figures)
    server = Server(replica, config, reread, sockets, worker, handle_key)
    if worker is None:
        listening(server.credentials)
    server.run()
