"""A replica of the service, as `lockfast serve` runs it."""

import socket
import sys

from tests.servers.process import Server, free_port


class Replica(Server):
    """A replica in front of the engine with a URL. `with` starts it, and closes it at the end."""

    def __init__(self, engine: str) -> None:
        """Choose a port. The process comes with start()."""
        super().__init__("replica", env={"LOCKFAST_URL": engine})
        self.port = free_port()

    @property
    def url(self) -> str:
        """The URL for clients."""
        return f"lockfast://127.0.0.1:{self.port}"

    def argv(self) -> list[str]:
        """Tell the command line."""
        return [sys.executable, "-m", "lockfast.cli", "serve", "--port", str(self.port)]

    def is_ready(self) -> bool:
        """Tell whether it accepts connections."""
        socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        return True
