"""A node: a server process that speaks RESP at a host and port."""

from abc import abstractmethod
from collections.abc import Mapping

from tests.servers.process import Home, Server, address_of, free_port
from tests.servers.resp import Argument, Connection, Reply, ReplyError


def text(reply: Reply) -> str:
    """Read a reply as text."""
    if isinstance(reply, bytes):
        return reply.decode()
    raise TypeError(f"not a string: {reply!r}")


def rows(reply: Reply) -> list[Reply]:
    """Read a reply as a list."""
    if isinstance(reply, list):
        return reply
    raise TypeError(f"not a list: {reply!r}")


def quoted(value: str) -> str:
    """Write a value as one word of a configuration file."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


class Node(Server):
    """A server process that takes Redis commands, on 127.0.0.1 or at home."""

    def __init__(
        self, name: str, *, env: Mapping[str, str] | None = None, home: Home | None = None
    ) -> None:
        """Choose the port, which stays the same when the node is restarted."""
        super().__init__(name, env=env, home=home)
        self.host = address_of(home)
        self.port = free_port()

    @property
    def address(self) -> str:
        """The host and port, as host:port."""
        return f"{self.host}:{self.port}"

    @abstractmethod
    def connect(self, timeout: float = 5.0) -> Connection:
        """Open a connection that may do anything."""

    def command(self, *args: Argument) -> Reply:
        """Run one command on a connection of its own; an error reply raises ReplyError."""
        with self.connect() as connection:
            return connection.command(*args)

    def info(self, section: str) -> dict[str, str]:
        """Tell a section of INFO."""
        lines = text(self.command("INFO", section)).splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)

    def is_ready(self) -> bool:
        """Tell whether it answers PING; while it loads its data it does not."""
        try:
            return self.command("PING") == b"PONG"
        except ReplyError:
            return False
