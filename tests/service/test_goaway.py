"""A client that is asked to leave a replica while a request of it is under way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable

from lockfast import aio
from lockfast.runtime.aio import Aio
from tests.servers.service import Service
from tests.service.peers import Held


def test_the_event_loop_goes_on_while_a_request_delays_the_move() -> None:
    """The heart waited until an instant of the past, again and again, and the loop hung."""
    held = Held()
    loops: list[asyncio.AbstractEventLoop] = []

    def make(_: Aio) -> Callable[[], Held]:
        loops.append(asyncio.get_running_loop())
        return held.made

    async def leave(url: str, goaway: Callable[[], None]) -> None:
        async with aio.connect(url) as client:
            async with client.lock("first"):
                held.holding.add("claim")
                waiting = asyncio.create_task(client.lock("second").acquire(timeout=8.0))
                while not held.gates:  # noqa: ASYNC110  # another loop sets it
                    await asyncio.sleep(0.01)
                loops[0].call_soon_threadsafe(goaway)
                loops[0].call_soon_threadsafe(loops[0].call_later, 1.5, held.let_go)
                await (await waiting).release()
            ended.append(time.process_time())

    ended: list[float] = []
    with Service(make) as service:
        server = service._server
        assert server is not None
        connections = server._replica.connections

        def goaway() -> None:  # and still accept connections, as another replica would
            for connection in list(connections):
                connection.goaway()

        began = time.process_time()
        thread = threading.Thread(
            target=lambda: asyncio.run(leave(service.url, goaway)), daemon=True
        )
        thread.start()
        thread.join(10.0)
        assert ended, "the event loop hangs"
        assert ended[0] - began < 1.0, "the heart spins"
