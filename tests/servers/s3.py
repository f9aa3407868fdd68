"""An object store that honours conditional puts: moto's server, in a process of its own."""

import sys
from http.client import HTTPConnection

from tests.servers.process import Server, free_port


class ObjectStore(Server):
    """One moto server; it keeps everything in memory. Any credentials will do."""

    def __init__(self) -> None:
        """Choose the port."""
        super().__init__("s3")
        self.host = "127.0.0.1"
        self.port = free_port()

    @property
    def url(self) -> str:
        """The endpoint."""
        return f"http://{self.host}:{self.port}"

    def argv(self) -> list[str]:
        """Tell the command line."""
        return [sys.executable, "-m", "moto.server", "-H", self.host, "-p", str(self.port)]

    def is_ready(self) -> bool:
        """Tell whether it lists its buckets."""
        connection = HTTPConnection(self.host, self.port, timeout=5)
        try:
            connection.request("GET", "/moto-api/data.json")
            return connection.getresponse().status == 200
        finally:
            connection.close()
