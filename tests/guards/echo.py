"""An HTTP server in a thread of the test: it answers as it is told, and keeps what it saw."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from typing import Self


class Echo:
    """Answers every PUT the same way; `with` starts it."""

    def __init__(
        self, status: int, kind: str = "text/plain", body: bytes = b"", *, location: str = ""
    ) -> None:
        """Take the answer, with a `location` if it redirects."""
        self.seen: dict[str, str] = {}
        seen = self.seen

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                seen.update({name.lower(): value for name, value in self.headers.items()})
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                if location:
                    self.send_header("Location", location)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,))

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self._server.server_port}/"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
