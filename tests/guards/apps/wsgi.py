"""The WSGI application, on a threaded wsgiref: `python -m tests.guards.apps.wsgi PORT`."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING
from wsgiref.simple_server import WSGIServer, make_server

from lockfast.guards.http import SHOWN
from lockfast.guards.http.wsgi import FencingMiddleware
from tests.guards.apps import kept, own, read, write

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

parked: list[threading.Event] = []


def handle(environ: WSGIEnvironment, start: StartResponse) -> Iterator[bytes]:
    """Serve one request. A generator: its work is done at the first chunk."""
    path, at = environ["PATH_INFO"], environ.get(SHOWN)
    body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    start("200 OK", [])
    if path == "/parked":
        body = str(len(parked)).encode()
    elif path == "/go":
        for event in parked:
            event.set()
        parked.clear()
    elif environ["REQUEST_METHOD"] == "GET":
        body = read(path, at)
    else:
        if "park" in environ["QUERY_STRING"]:
            event = threading.Event()
            parked.append(event)
            event.wait()
        write(path, body, at)
    yield body


class Threaded(ThreadingMixIn, WSGIServer):
    """A thread for each request."""

    daemon_threads = True


def main() -> None:
    """Serve."""
    app = FencingMiddleware(FencingMiddleware(handle, own()), kept())
    with make_server("127.0.0.1", int(sys.argv[1]), app, server_class=Threaded) as server:
        server.serve_forever()


if __name__ == "__main__":
    main()
