"""The asyncio connection to Redis writes many requests of one turn in parts: work overlaps."""

from __future__ import annotations

import asyncio
import select
import socket

import pytest

from lockfast.engines.redis.aio_connection import TOGETHER, Connection
from lockfast.engines.redis.transport import Address
from lockfast.runtime.base import now


@pytest.mark.parametrize("count", [1, TOGETHER - 1, TOGETHER, TOGETHER + 1, 3 * TOGETHER + 5])
def test_the_server_gets_requests_while_tasks_still_make_others(count: int) -> None:
    """With all of them in one write, the server waited for a hundred tasks, and they for it."""

    async def play() -> None:
        loop = asyncio.get_running_loop()
        with socket.create_server(("127.0.0.1", 0)) as listener:
            host, port = listener.getsockname()
            connection = Connection(Address(host, port), now, lambda _: None)
            await loop.create_connection(lambda: connection, host, port)
            peer, _ = listener.accept()
        with peer:
            peer.settimeout(5)
            futures = [connection.send(b"%04d" % number) for number in range(count)]
            whole = b"".join(b"%04d" % number for number in range(count))
            early = count - count % TOGETHER
            received = await_bytes(peer, 4 * early)  # before the loop has another turn
            assert received == whole[: 4 * early]
            await asyncio.sleep(0)
            assert await_bytes(peer, 4 * (count - early)) == whole[4 * early :]
            peer.sendall(b":1\r\n" * count)
            assert await asyncio.gather(*futures) == [1] * count
        connection.drop("the end")

    asyncio.run(play())


def await_bytes(peer: socket.socket, count: int) -> bytes:
    """Read so many bytes, and check that no others have arrived."""
    found = b""
    while len(found) < count:
        found += peer.recv(count - len(found))
    assert not select.select([peer], [], [], 0)[0]
    return found
