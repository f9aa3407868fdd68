"""What a client says if it cannot connect: why, and what to do about it."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote

import pytest

import lockfast
import lockfast.aio
from lockfast.errors import EngineError
from lockfast.service.config import Config
from tests.servers import free_port
from tests.servers.certificates import Certificates
from tests.service.test_access import KEY, Guarded, files, keys, secured

__all__ = ["files"]  # the fixture


def with_threads(url: str) -> str:
    with lockfast.connect(url) as client, pytest.raises(EngineError) as error:
        client.lock("x").try_acquire()
    return error.value.message


def with_asyncio(url: str) -> str:
    async def play() -> str:
        async with lockfast.aio.connect(url) as client:
            with pytest.raises(EngineError) as error:
                await client.lock("x").try_acquire()
            return error.value.message

    return asyncio.run(play())


both = pytest.mark.parametrize("said", [with_threads, with_asyncio])
Said = Callable[[str], str]


@both
def test_tls_at_a_replica_without_it(said: Said) -> None:
    with Guarded(Config(port=0)) as guarded:
        message = said(f"lockfasts://127.0.0.1:{guarded.port}")
    assert "SSL" in message
    assert message.endswith(
        ". The service has no TLS: write lockfast:// in the URL, or give it a certificate"
    )


@both
def test_no_tls_at_a_replica_with_it(said: Said, files: Certificates) -> None:
    with Guarded(secured(files, keys=keys(a=KEY))) as guarded:
        message = said(f"lockfast://:{KEY}@127.0.0.1:{guarded.port}")
    assert message.endswith("Does the service have TLS? Then write lockfasts:// in the URL")


@both
def test_a_certificate_of_an_authority_that_is_not_named(said: Said, files: Certificates) -> None:
    with Guarded(secured(files, keys=keys(a=KEY))) as guarded:
        message = said(f"lockfasts://:{KEY}@127.0.0.1:{guarded.port}")
    assert "certificate verify failed" in message
    assert "by ssl_ca_certs in the URL" in message


@both
def test_a_certificate_for_another_host(said: Said, files: Certificates) -> None:
    with Guarded(secured(files, keys=keys(a=KEY))) as guarded:
        at = f"127.0.0.2:{guarded.port}"  # nobody listens there, which is found out first
        assert "Start `lockfast serve` there" in said(f"lockfasts://:{KEY}@{at}")
    with Guarded(secured(files, keys=keys(a=KEY), host="127.0.0.2")) as guarded:
        at = f"127.0.0.2:{guarded.port}"
        message = said(f"lockfasts://:{KEY}@{at}?ssl_ca_certs={quote(str(files.ca_path))}")
    assert message.endswith(
        "Write a host into the URL for which the service's certificate was made"
    )


@both
def test_a_certificate_that_has_expired(said: Said, tmp_path: Path) -> None:
    files = Certificates(tmp_path)
    files.issue(days=0)
    with silent_tls(files) as port:
        ca = quote(str(files.ca_path))
        message = said(f"lockfasts://127.0.0.1:{port}?ssl_ca_certs={ca}")
    assert "has expired" in message
    assert message.endswith("Renew the certificate of the service, and send HUP to each replica")


@contextmanager
def silent_tls(files: Certificates) -> Iterator[int]:
    """A server with a certificate that `lockfast serve` would refuse."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(files.certificate_path, files.key_path)
        plain = server.get_request

        def get_request() -> object:
            sock, address = plain()
            try:
                return context.wrap_socket(sock, server_side=True), address
            except OSError:
                sock.close()
                raise

        server.get_request = get_request  # type: ignore[assignment,method-assign]  # with TLS
        with running(server) as port:
            yield port


@contextmanager
def running(server: ThreadingHTTPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        thread.join()


@both
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_nobody_listens(said: Said, host: str) -> None:
    message = said(f"lockfast://{host}:{free_port()}")
    assert message.endswith(
        ". Start `lockfast serve` there, or correct the host and the port in the URL"
    )


@both
@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, ". Does the service have TLS? Then write lockfasts:// in the URL"),
        (404, ". If a proxy is in front of the service, let it pass on WebSockets and /v1/"),
        (431, ". Is the API key or token longer than 8 KiB?"),
        (502, ". Does the proxy reach a replica?"),
        (503, "it answered HTTP 503"),
    ],
)
def test_what_a_proxy_may_answer(said: Said, status: int, advice: str) -> None:
    class Answering(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:  # http.server's
            with suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # http.server's
            """Write nothing to stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answering) as server, running(server) as port:
        assert said(f"lockfast://127.0.0.1:{port}").endswith(advice)
