"""Nothing is written to an asyncio connection that has ended: uvloop raises RuntimeError then."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

from lockfast.engines.redis.aio_connection import Connection
from lockfast.engines.redis.transport import Address
from lockfast.engines.remote.aio import AioLine
from lockfast.engines.remote.identity import Identity
from lockfast.engines.remote.websocket import WebSocket
from lockfast.errors import EngineUnavailable
from lockfast.port import Wake
from lockfast.runtime.aio import Aio
from lockfast.runtime.base import Event, now

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
TURNS = 20  # of the loop: the transport tells the end in one of them


class Owner:
    """The transport of a line, as far as the line uses it."""

    def __init__(self) -> None:
        self.identity = Identity()
        self.now = now
        self.hears = False
        self.on_disconnect = 0.0

    def event(self) -> Event:
        return Aio().event()

    def woken(self, wakes: list[Wake]) -> None:
        del wakes


def run(
    make: Callable[[], asyncio.AbstractEventLoop], play: Callable[[], Coroutine[Any, Any, None]]
) -> None:
    """Run to the end. What the loop would only log fails the test."""
    wrong: list[dict[str, Any]] = []

    async def watched() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, told: wrong.append(told))
        await play()
        await turns()

    with asyncio.Runner(loop_factory=make) as runner:
        runner.run(watched())
    assert wrong == []


async def turns() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0.001)


async def connected(protocol: asyncio.Protocol) -> socket.socket:
    """Connect a protocol, and return the socket of its peer."""
    loop = asyncio.get_running_loop()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        await loop.create_connection(lambda: protocol, *listener.getsockname())
        return listener.accept()[0]


@pytest.mark.parametrize("make", LOOPS.values(), ids=list(LOOPS))
def test_a_connection_to_redis_ends_with_requests_that_wait(
    make: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def play() -> None:
        connection = Connection(Address("127.0.0.1", 1), now, lambda _: None)
        with await connected(connection):
            asked = connection.send(b"PING\r\n")
            connection.drop("the end")
            await turns()
            connection.post(b"PING\r\n")  # a resignation that nobody waits for
            with pytest.raises(EngineUnavailable):
                await asked

    run(make, play)


@pytest.mark.parametrize("make", LOOPS.values(), ids=list(LOOPS))
def test_a_connection_to_a_replica_ends_with_messages_that_wait(
    make: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    async def play() -> None:
        wire = WebSocket("127.0.0.1", 1, "/v1/connect", None, secure=False)
        line = AioLine(Owner(), wire, "the service at 127.0.0.1:1")
        with await connected(line) as peer:
            peer.recv(4096)  # the handshake
            agree(wire)
            line._put(wire.ping)
            line.drop(EngineUnavailable("the end", sent=True))
            await turns()
            wire.ping()  # as if the library had something left to say
            line._flush()

    run(make, play)


def agree(wire: WebSocket) -> None:
    """Let the handshake succeed."""
    wire.open = True
