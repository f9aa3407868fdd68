"""What is no HTTP gets one answer as the API has it, and writes nothing to the log."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator

import pytest

from lockfast.service.config import Config
from lockfast.service.http.body import LIMIT
from tests.servers import wait_until
from tests.service.test_access import KEY, SOON, Guarded, keys

HEAD = b"%s /v1/acquire HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
GARBAGE = b"zz\r\n"  # it is no length of a chunk


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with Guarded(Config(port=0, keys=keys(a=KEY))) as found:
        yield found


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nX\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
        HEAD % b"POST" + GARBAGE,
        HEAD % b"HEAD" + GARBAGE,
    ],
    ids=["line", "header", "length", "chunk", "chunk of HEAD"],
)
def test_it_is_answered_once_and_not_logged(
    guarded: Guarded, raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    with guarded.raw() as sock:
        sock.settimeout(SOON)
        sock.sendall(raw)
        reply = http.client.HTTPResponse(sock, method="HEAD" if b"HEAD" in raw else "GET")
        reply.begin()
        assert reply.status == 400
        assert reply.headers["content-type"] == "application/json"
        assert reply.headers["connection"] == "close"
        if b"HEAD" not in raw:
            assert json.loads(reply.read())["error"] == "malformed"
        assert not sock.recv(1)
    wait_until(lambda: not guarded.server.server_state.tasks, "the request has ended", LIMIT / 2)
    assert not caplog.records


def test_garbage_after_an_answer_is_not_logged(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    with guarded.raw() as sock:
        sock.settimeout(SOON)
        sock.sendall(HEAD % b"POST")
        assert b" 401 " in sock.recv(65_536)  # it has not waited for the body
        try:
            sock.sendall(GARBAGE)
            assert b"HTTP/1.1" not in sock.recv(65_536)
        except ConnectionError:
            pass
    wait_until(lambda: not guarded.server.server_state.connections, "the connection has ended")
    assert not caplog.records


def test_garbage_during_a_body_ends_the_request(
    guarded: Guarded, caplog: pytest.LogCaptureFixture
) -> None:
    with guarded.raw() as sock:
        sock.settimeout(SOON)
        authorized = b"Host: localhost\r\nAuthorization: Bearer " + KEY.encode()
        sock.sendall((HEAD % b"POST").replace(b"Host: localhost", authorized) + b"1\r\n{\r\n")
        wait_until(lambda: bool(guarded.server.server_state.tasks), "the body is read")
        sock.sendall(GARBAGE)
        assert b" 400 " in sock.recv(65_536)
    wait_until(lambda: not guarded.server.server_state.tasks, "the request has ended", LIMIT / 2)
    assert not guarded.held.calls
    assert not caplog.records
