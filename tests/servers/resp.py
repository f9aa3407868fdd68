"""A RESP connection: a few lines of Redis protocol, so that the harness needs no client."""

import socket
import ssl
from types import TracebackType
from typing import Self, TypeAlias

Argument: TypeAlias = bytes | str | int | float
Reply: TypeAlias = "bytes | int | list[Reply] | None"


class ReplyError(Exception):
    """The server answered with an error."""


def pack(*args: Argument) -> bytes:
    """Write one command as the server reads it."""
    words = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]
    lines = [b"*%d\r\n" % len(words)]
    lines += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"".join(lines)


class Connection:
    """One connection to a server, one command at a time."""

    def __init__(
        self, host: str, port: int, *, tls: ssl.SSLContext | None = None, timeout: float = 5.0
    ) -> None:
        """Connect."""
        plain = socket.create_connection((host, port), timeout)
        self.socket = plain if tls is None else tls.wrap_socket(plain, server_hostname=host)
        self._file = self.socket.makefile("rb")

    def command(self, *args: Argument) -> Reply:
        """Send a command and read its reply; an error reply raises ReplyError."""
        self.send(*args)
        return self.read()

    def send(self, *args: Argument) -> None:
        """Send a command without reading its reply."""
        self.socket.sendall(pack(*args))

    def read(self) -> Reply:
        """Read one reply."""
        line = self._file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed the connection")
        kind, rest = line[:1], line[1:-2]
        match kind:
            case b"+":
                return rest
            case b"-":
                raise ReplyError(rest.decode())
            case b":":
                return int(rest)
            case b"$":
                size = int(rest)
                return None if size < 0 else self._file.read(size + 2)[:-2]
            case b"*":
                size = int(rest)
                return None if size < 0 else [self.read() for _ in range(size)]
            case _:
                raise ReplyError(f"not RESP: {line!r}")

    def close(self) -> None:
        """Close the connection."""
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        """Nothing: it is connected already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close."""
        self.close()
