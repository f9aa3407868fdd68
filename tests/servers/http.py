"""HTTP servers that run an application of the tests: uvicorn for ASGI, wsgiref for WSGI."""

import socket
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.servers.process import Server, free_port

_ROOT = Path(__file__).parents[2]


class HttpServer(Server):
    """One process that serves HTTP."""

    def __init__(self, name: str, env: Mapping[str, str] | None = None) -> None:
        """Choose the port, which stays the same when the server is restarted."""
        super().__init__(name, env={"PYTHONPATH": str(_ROOT), **(env or {})})
        self.port = free_port()

    @property
    def url(self) -> str:
        """The address for a client."""
        return f"http://127.0.0.1:{self.port}"

    def is_ready(self) -> bool:
        """Tell whether it takes connections."""
        socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        return True


class Asgi(HttpServer):
    """uvicorn with one worker; app is MODULE:NAME."""

    def __init__(self, app: str, env: Mapping[str, str] | None = None) -> None:
        """Take the application."""
        super().__init__("asgi", env)
        self._app = app

    def argv(self) -> list[str]:
        """Tell the command line."""
        return [sys.executable, "-m", "uvicorn", "--port", str(self.port), self._app]


class Wsgi(HttpServer):
    """A module that serves on the port of its first argument."""

    def __init__(self, module: str, env: Mapping[str, str] | None = None) -> None:
        """Take the module."""
        super().__init__("wsgi", env)
        self._module = module

    def argv(self) -> list[str]:
        """Tell the command line."""
        return [sys.executable, "-m", self._module, str(self.port)]
