"""TLS records that arrive in pieces: the thread of a connection must go on writing meanwhile."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lockfast.engines.remote import messages
from lockfast.engines.remote.identity import Identity
from lockfast.engines.remote.threads import ThreadTransport
from lockfast.engines.remote.url import address_of
from lockfast.errors import EngineUnavailable
from lockfast.runtime.base import now
from lockfast.runtime.drive import drive
from lockfast.runtime.threads import Threads
from lockfast.url import parse
from tests.servers.certificates import Certificates
from tests.servers.service import Service
from tests.service.peers import Held


class Halves:
    """A TLS proxy for one connection. It can keep what the replica sends, but for half a record."""

    def __init__(self, context: ssl.SSLContext, host: str, port: int) -> None:
        self.kept = b""
        self.keep = False
        self.arrived = 0
        """Bytes of the client, decrypted."""
        self._to = host, port
        self._lock = threading.Lock()
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def join(self) -> None:
        """Wait until the client has closed the connection."""
        self._thread.join(10.0)
        assert not self._thread.is_alive()

    def _run(self) -> None:
        with self._listener:
            client, _ = self._listener.accept()
        with client, socket.create_connection(self._to) as replica, suppress(OSError):
            self._shake(client)
            threading.Thread(target=self._back, args=(client, replica), daemon=True).start()
            data = b""  # the first bytes may have come with the end of the handshake
            while True:
                with self._lock:
                    self._in.write(data)
                    read = self._read()
                self.arrived += len(read)
                replica.sendall(read)
                data = client.recv(65_536)
                if not data:
                    return

    def _shake(self, client: socket.socket) -> None:
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                client.sendall(self._out.read())
                self._in.write(client.recv(65_536))
            else:
                client.sendall(self._out.read())
                return

    def _read(self) -> bytes:
        parts = []
        with suppress(ssl.SSLWantReadError):
            while part := self._tls.read(65_536):
                parts.append(part)
        return b"".join(parts)

    def _back(self, client: socket.socket, replica: socket.socket) -> None:
        with suppress(OSError):
            while data := replica.recv(65_536):
                with self._lock:
                    self._tls.write(data)
                    sealed = self._out.read()
                end = len(sealed)
                if self.keep:
                    end = 0 if self.kept else end - 1
                    self.kept += sealed[end:]
                client.sendall(sealed[:end])


def eventually(true: Callable[[], bool]) -> float:
    """Return the seconds after which it was true."""
    began = time.monotonic()
    while not true():
        assert time.monotonic() < began + 10.0
        time.sleep(0.01)
    return time.monotonic() - began


def test_half_a_record_does_not_keep_the_thread_from_writing(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates.certificate_path, certificates.key_path)
    with Service(lambda _: Held().made) as service:
        host, port = service.url.removeprefix("lockfast://").split(":")
        proxy = Halves(context, host, int(port))
        url = f"lockfasts://localhost:{proxy.port}?ssl_ca_certs={certificates.ca_path}"
        transport = ThreadTransport(address_of(parse(url)), Identity(), Threads())
        drive(transport.call(messages.Promise(0, 5.0), now() + 5.0, messages.Promised))
        line = transport.line
        assert line is not None
        proxy.keep = True
        with pytest.raises(EngineUnavailable, match="no answer in time"):
            drive(transport.call(messages.Promise(0, 5.0), now() + 0.2, messages.Promised))
        assert proxy.kept
        before = proxy.arrived
        line.probe()
        assert eventually(lambda: proxy.arrived > before) < 2.0
        drive(transport.close())
        proxy.join()
