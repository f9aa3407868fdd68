"""One connection to a MySQL server: which replies make it unfit for the next request."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from lockfast.engines.mysql.link import Link
from lockfast.engines.mysql.results import ServerError
from lockfast.engines.mysql.url import Address
from lockfast.url import parse

OK = b"\x07\0\0\x01\0\0\0\2\0\0\0"
DEADLOCK, UNKNOWN = b"\x03\0\0\x01\xff\xbd\x04", b"\x03\0\0\x01\xff\x51\x04"


@pytest.fixture
def pair() -> Iterator[tuple[Link, socket.socket]]:
    """A connection that has sent a request, and the server's end of it."""
    address = Address.of(parse("mysql://u@h/x"))
    link = Link(address, address.places[0], "127.0.0.1")
    link._socket.close()
    link._socket, server = socket.socketpair()
    link._socket.setblocking(False)  # noqa: FBT003  # the socket's own
    link.send(b"SELECT 1")
    yield link, server
    link.close()
    server.close()


@pytest.mark.parametrize(
    ("reply", "idle"),
    [
        (OK, True),
        (OK + b"\0", False),  # would be read as the beginning of the next reply
        (OK + OK, False),
        (OK[:-4] + b"\3\0\0\0", False),  # in a transaction
    ],
)
def test_a_connection_is_used_again_only_after_a_whole_reply(
    pair: tuple[Link, socket.socket], reply: bytes, *, idle: bool
) -> None:
    link, server = pair
    assert not link.idle
    server.sendall(reply)
    rows, _ = link.receive()
    assert rows == []
    assert link.idle is idle


@pytest.mark.parametrize(("reply", "idle"), [(DEADLOCK, True), (UNKNOWN, False)])
def test_a_connection_is_used_again_only_after_an_error_that_is_known(
    pair: tuple[Link, socket.socket], reply: bytes, *, idle: bool
) -> None:
    link, server = pair
    server.sendall(reply)
    with pytest.raises(ServerError):
        link.receive()
    assert link.idle is idle
