"""`lockfast serve` with a configuration file, as a process of its own, and raw clients of it."""

from __future__ import annotations

import http.client
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import Any, Self

from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect, unix_connect

from lockfast.engines.remote import messages
from lockfast.engines.remote.identity import client_of, new_secret
from lockfast.engines.remote.messages import Asked, Hello, Reply, Said, Welcome
from tests.cli.run.program import Program
from tests.servers import free_port

SOON = 10.0
SUFFIXES = count(1)
Headers = Sequence[tuple[str, str]]


def bearer(key: str) -> Headers:
    """Return the header that shows a key or token."""
    return [("Authorization", f"Bearer {key}")]


class Voice:
    """A client with one connection, that sends what it likes."""

    def __init__(self, socket: ClientConnection, secret: str = "", epoch: int = 1) -> None:
        self.socket = socket
        self.secret = secret or new_secret()
        self.client = client_of(self.secret)
        self._numbers = count(1)
        self.send(Hello(messages.VERSION, self.secret, epoch))
        welcome = self.read()
        assert isinstance(welcome, Welcome)
        self.now = welcome.now

    def send(self, message: messages.Request) -> None:
        """Send a message."""
        self.socket.send(messages.encode(message).decode())

    def read(self) -> Reply:
        """Return the next message."""
        return messages.reply(self.socket.recv(SOON))

    def call(self, message: Any) -> Any:  # noqa: ANN401
        """Send a request, and return its reply."""
        message.n = next(self._numbers)
        self.send(message)
        reply = self.read()
        assert reply.n == message.n  # type: ignore[union-attr]
        return reply

    def new(self, name: str, ttl: float = 30.0, **more: Any) -> Asked:  # noqa: ANN401
        """Return a new claim."""
        asked = Asked(f"{self.client}{next(SUFFIXES):010x}", name, ttl, **more)
        asked.not_after = None if self.now is None else self.now + 5.0
        return asked

    def claim(self, *asks: Asked) -> Said:
        """Make claims. The first reply may only tell the engine's time."""
        for _ in range(2):
            for asked in asks:
                asked.not_after = None if self.now is None else self.now + 5.0
            said: Said = self.call(messages.Claim(0, 2.0, list(asks)))
            if not isinstance(said, Said):  # it failed as a whole
                break
            known, self.now = self.now is not None, said.now
            if known:
                break
        return said

    def renew(self, *asks: Asked) -> Said:
        """Renew claims at once."""
        said: Said = self.call(messages.Renew(0, 2.0, list(asks), urgent=True))
        return said


class Served:
    """The command, with a configuration that a test writes."""

    def __init__(self, folder: Path, url: str, text: str, *args: str) -> None:
        self.folder = folder
        self.port = free_port()
        self._url = url
        self._args = args
        self.path = folder / "lockfast.toml"
        self.write(text)

    def write(self, text: str) -> None:
        """Write the configuration."""
        address = "" if "uds" in text else f"port = {self.port}\n"
        self.path.write_text(f'url = "{self._url}"\n{address}{text}', "utf-8")

    def reload(self, text: str, says: str = "the configuration was reloaded") -> None:
        """Write the configuration, and have it read."""
        before = self.program.stderr.count(says)
        self.write(text)
        self.program.send(signal.SIGHUP)
        until = time.monotonic() + SOON
        while self.program.stderr.count(says) == before:
            assert time.monotonic() < until, self.program.stderr
            time.sleep(0.05)

    def __enter__(self) -> Self:
        self.program = Program(None, "serve", "--config", str(self.path), *self._args)
        self.program.says("serving")
        return self

    def __exit__(self, *error: object) -> None:
        self.program.__exit__(None, None, None)

    @contextmanager
    def socket(self, headers: Headers = (), uds: Path | None = None) -> Iterator[ClientConnection]:
        """Connect."""
        more: Mapping[str, Any] = {"compression": None, "additional_headers": headers}
        if uds is not None:
            with unix_connect(str(uds), "ws://localhost/v1/connect", **more) as found:
                yield found
        else:
            with connect(f"ws://127.0.0.1:{self.port}/v1/connect", **more) as found:
                yield found

    @contextmanager
    def voice(self, headers: Headers = (), uds: Path | None = None) -> Iterator[Voice]:
        """Connect, and greet."""
        with self.socket(headers, uds) as socket:
            yield Voice(socket)

    def metrics(self, key: str) -> str:
        """Return `/metrics`."""
        line = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SOON)
        with closing(line):
            line.request("GET", "/metrics", headers=dict(bearer(key)))
            return line.getresponse().read().decode()

    def status(self, headers: Headers = (), uds: Path | None = None) -> int:
        """Return the status of a handshake."""
        try:
            with self.socket(headers, uds):
                return 101
        except InvalidStatus as refused:
            return refused.response.status_code
