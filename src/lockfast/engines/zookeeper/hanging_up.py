"""Ends kazoo's connections: one that is silent, or the last one of a session."""

from __future__ import annotations

import contextlib
import socket
from typing import Any

from kazoo.client import KazooClient

AGAIN = 0.05  # seconds after which a connection that was made meanwhile is closed too


def hang_up(client: KazooClient) -> None:
    """Close the current connection, if there is one. kazoo then tries the next server."""
    current = client._connection._socket  # noqa: SLF001  # there is no other way to it
    if current is not None:
        with contextlib.suppress(OSError):
            current.shutdown(socket.SHUT_RDWR)


def stop(client: KazooClient, *, alive: bool) -> None:
    """End kazoo's threads. `alive`: only disconnect, and leave the session's nodes to time out.

    kazoo looks whether it was stopped only between two connections. One whose handshake is under
    way would live on, and its pings would keep the nodes for ever. So this closes every connection
    until kazoo's thread has ended.
    """
    with contextlib.suppress(Exception):
        if alive:
            client._stopped.set()  # noqa: SLF001  # kazoo has no method for it
            ended: Any = client._connection.connection_stopped  # noqa: SLF001  # the same
            hang_up(client)
            while not ended.wait(AGAIN):
                hang_up(client)
            client._safe_close()  # noqa: SLF001  # the same
        else:
            client.stop()
    with contextlib.suppress(Exception):
        client.close()
