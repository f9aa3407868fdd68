"""What comes from outside is bounded, and no connection rests or drips for ever."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from lockfast.service import handshake, keep_alive
from lockfast.service.config import Config
from lockfast.service.http import body, polls
from lockfast.service.http.messages import LARGEST_BODY
from tests.servers import wait_until
from tests.service.http.site import Site
from tests.service.test_access import KEY, Guarded, keys
from tests.service.test_handshakes import is_ended, upgrade

SOON = 5.0


@pytest.fixture
def guarded() -> Iterator[Guarded]:
    with Guarded(Config(port=0)) as found:
        yield found


@pytest.fixture
def here(guarded: Guarded) -> Site:
    return Site(guarded.port)


def arrivals(guarded: Guarded) -> int:
    return len(guarded.server._entrance._arrivals)


def head(path: str, *more: str, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: localhost", *more, "", ""]).encode()


def answered(sock: socket.socket) -> bytes:
    """Read the whole answer, which may come in two pieces."""
    sock.settimeout(SOON)
    told = b""
    while not told.endswith(b"}\n"):
        piece = sock.recv(65_536)
        assert piece, told
        told += piece
    return told


def pour(sock: socket.socket, piece: bytes, pause: float) -> None:
    """Send the same again and again, until the server ends the connection."""
    until = time.monotonic() + 2 * SOON
    while time.monotonic() < until:
        sock.sendall(piece)
        time.sleep(pause)


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"nonsense",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        {},
        {"name": "a"},
        {"ttl": 30},
        {"name": "", "ttl": 30},
        {"name": "a" * 513, "ttl": 30},
        {"name": "é" * 300, "ttl": 30},
        {"name": 1, "ttl": 30},
        {"name": "a", "ttl": "30"},
        {"name": "a", "ttl": 0},
        {"name": "a", "ttl": 86_401},
        {"name": "a", "ttl": 30, "wait": -1},
        {"name": "a", "ttl": 30, "wait": 61},
        {"name": "a", "ttl": 30, "kind": "rwlock"},
        {"name": "a", "ttl": 30, "capacity": 2},
        {"name": "a", "ttl": 30, "kind": "semaphore"},
        {"name": "a", "ttl": 30, "kind": "semaphore", "capacity": 1, "weight": 2},
        {"name": "a", "ttl": 30, "kind": "semaphore", "capacity": 2**31},
        {"name": "a", "ttl": 30, "purpose": "x" * 257},
        {"name": "a", "ttl": 30, "handle": "x"},
        b'{"name": "\\ud800", "ttl": 30}',
        b'{"name": "a", "ttl": NaN}',
        b'{"name": "a", "ttl": 1e999}',
    ],
    ids=str,
)
def test_a_malformed_request_is_told_what_is_wrong(
    guarded: Guarded, here: Site, wrong: object
) -> None:
    answer = here.post("/v1/acquire", wrong)
    assert answer.status == 400
    assert 10 < len(answer.body["message"]) < 400
    assert not guarded.held.calls


def test_a_field_that_is_not_known_is_ignored(here: Site) -> None:
    assert here.acquire("a", later="field").status == 200


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "é"])
def test_a_malformed_idempotency_key_is_refused(here: Site, key: str) -> None:
    answer = here.post("/v1/acquire", {"name": "a", "ttl": 30}, Idempotency_Key=key)
    assert answer.status == 400


@pytest.mark.parametrize(
    "query",
    [
        "name=a&prefix=b",
        "name=",
        "name=a&name=b",
        "prefix=" + "x" * 513,
        "cursor=" + "x" * 8_193,
        "prefix=%ff",
        "&".join(f"a{n}=1" for n in range(20)),
    ],
)
def test_a_malformed_query_is_refused(here: Site, query: str) -> None:
    assert here.get(f"/v1/locks?{query}").status == 400


def test_a_lock_may_have_any_name(here: Site) -> None:
    for name in ("null", "true", "1", "é"):
        assert here.acquire(name).status == 200
        quoted = "%C3%A9" if name == "é" else name
        assert here.get(f"/v1/locks?name={quoted}").body["locks"][0]["name"] == name


def test_a_body_over_the_limit_is_not_read(guarded: Guarded) -> None:
    site = Site(guarded.port)
    assert site.post("/v1/renew", b" " * (LARGEST_BODY + 1)).status == 413
    for length in (LARGEST_BODY + 1, 10**18):
        with guarded.raw() as sock:
            sock.sendall(head("/v1/renew", f"Content-Length: {length}"))
            assert b" 413 " in sock.recv(4096)
            assert is_ended(sock)
    with guarded.raw() as sock:  # its length is not known before its end
        sock.sendall(head("/v1/renew", "Transfer-Encoding: chunked"))
        chunk = b"8000\r\n" + b" " * 0x8000 + b"\r\n"
        sock.sendall(chunk * 5)
        assert b" 413 " in sock.recv(4096)


def test_the_largest_renewal_fits(here: Site) -> None:
    handle = here.acquire("\x00" * 512).body["handle"]
    assert {each["state"] for each in here.renew(*[handle] * 64)} == {"held"}
    assert here.post("/v1/renew", {"handles": [handle] * 65}).status == 400
    assert here.post("/v1/renew", {"handles": []}).status == 400


def test_a_slow_body_is_ended(guarded: Guarded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "LIMIT", 0.3)
    with guarded.raw() as sock:
        sock.sendall(head("/v1/acquire", "Content-Length: 100"))
        began = time.monotonic()
        assert b" 408 " in sock.recv(4096)
        assert is_ended(sock)
        assert 0.2 < time.monotonic() - began < 3.0
    assert not guarded.held.calls


def test_a_head_that_does_not_end_is_ended(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one as well as the first one, though bytes arrive all the time."""
    monkeypatch.setattr(handshake, "LIMIT", 0.5)
    monkeypatch.setattr(keep_alive, "LIMIT", 0.5)
    monkeypatch.setattr(keep_alive, "CHECK", 0.1)
    for before in (b"", head("/v1/guarantees", method="GET")):
        with guarded.raw() as sock:
            sock.sendall(before)
            if before:
                assert b" 200 " in answered(sock)
            began = time.monotonic()
            with pytest.raises(OSError, match=r"Broken pipe|reset"):
                pour(sock, b"G", 0.05)
            assert time.monotonic() - began < 3.0
    wait_until(lambda: not len(guarded.server._resting), "they are forgotten")


def test_a_connection_serves_many_requests(here: Site, guarded: Guarded) -> None:
    site = Site(guarded.port, keep=True)
    for n in range(20):
        site.release(site.acquire(f"a{n}").body["handle"])
    assert site._line is not None
    assert site._line.sock is not None
    assert not arrivals(guarded)
    assert len(guarded.server._resting) == 1
    site._line.close()
    wait_until(lambda: not len(guarded.server._resting), "it is forgotten")
    del here


def test_a_stranger_is_not_admitted() -> None:
    with Guarded(Config(port=0, keys=keys(a=KEY))) as guarded:
        for path, more, status in (
            ("/v1/acquire", (), b" 401 "),
            ("/v1/nothing", (f"Authorization: Bearer {KEY}",), b" 404 "),
            ("/v1/guarantees", (f"Authorization: Bearer {KEY}",), b" 405 "),
            ("/v1/acquire", (f"Authorization: Bearer {KEY}", "Origin: a"), b" 403 "),
        ):
            with guarded.raw() as sock:
                sock.sendall(head(path, *more, "Content-Length: 0"))
                told = sock.recv(4096)
                assert status in told
                assert b"connection: close" in told
                assert is_ended(sock)
        wait_until(lambda: not arrivals(guarded), "they have ended")


def test_a_request_may_wait_for_longer_than_a_handshake(
    guarded: Guarded, here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handshake, "LIMIT", 0.3)
    here.acquire("a")
    assert here.acquire("a", wait=1).status == 202
    assert not arrivals(guarded)


def test_the_connection_that_has_rested_for_longest_makes_room(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keep_alive, "MOST", 3)
    socks: list[socket.socket] = []
    for _ in range(4):
        socks.append(guarded.raw())
        socks[-1].sendall(head("/v1/guarantees", method="GET"))
        assert b" 200 " in answered(socks[-1])
    assert is_ended(socks[0])
    socks[1].sendall(head("/v1/guarantees", method="GET"))
    assert b" 200 " in answered(socks[1])
    for sock in socks:
        sock.close()


def test_a_client_that_reads_nothing_is_ended(
    guarded: Guarded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lockfast.service.upgrade.STUCK", 0.5)
    request = head("/openapi.json", method="GET")
    with guarded.raw() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sock.settimeout(SOON)
        began = time.monotonic()
        with pytest.raises(OSError, match=r"Broken pipe|reset"):
            pour(sock, request * 10, 0.0)
        assert time.monotonic() - began < 10.0


def test_too_many_that_wait_are_answered_at_once(
    here: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(polls, "MOST", 0)
    here.acquire("a")
    began = time.monotonic()
    queued = here.acquire("a", wait=30)
    assert (queued.status, queued.headers["retry-after"]) == (202, "1")
    assert time.monotonic() - began < 2.0


def test_several_requests_in_one_segment_are_answered_in_order(guarded: Guarded) -> None:
    content = [json.dumps({"name": f"a{n}", "ttl": 30}).encode() for n in range(3)]
    whole = b"".join(head("/v1/acquire", f"Content-Length: {len(c)}") + c for c in content)
    with guarded.raw() as sock:
        sock.sendall(whole)
        told = b""
        sock.settimeout(SOON)
        while told.count(b"HTTP/1.1 200") < 3 or not told.endswith(b"}\n"):
            told += sock.recv(65_536)
        places = [told.index(b'"name":"a%d"' % n) for n in range(3)]
        assert places == sorted(places)


def test_a_connection_of_requests_may_become_a_websocket(guarded: Guarded) -> None:
    with guarded.raw() as sock:
        sock.sendall(head("/v1/guarantees", method="GET"))
        assert b" 200 " in answered(sock)
        sock.sendall(upgrade())
        assert b" 101 " in sock.recv(4_096)
        assert len(guarded.server._replica.connections) == 1
        assert not len(guarded.server._resting)
