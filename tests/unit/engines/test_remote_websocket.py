"""The WebSocket of a client of the service: what it says when a connection ends."""

from __future__ import annotations

import pytest

from lockfast.engines.remote.websocket import Ended, WebSocket

CLOSED = (
    r"^the replica closed the connection\. Does the service have TLS\? Then write lockfasts:// in "
    "the URL$"
)


def begun() -> WebSocket:
    return WebSocket("localhost", 7420, "/v1/connect", None, secure=False)


def test_a_replica_that_ends_during_the_handshake_is_a_closed_connection() -> None:
    with pytest.raises(Ended, match=CLOSED):
        begun().receive(b"")


def test_another_protocol_is_named_as_such() -> None:
    socket = begun()
    with pytest.raises(Ended, match=r"^not a WebSocket of lockfast: "):
        socket.receive(b"-ERR unknown command 'GET'\r\n")
