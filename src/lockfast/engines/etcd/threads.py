"""The blocking transport: all threads of a client share one connection to a member."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from lockfast.engines.etcd.links import Link, Links, Login, blocking, end
from lockfast.engines.etcd.transport import Transport
from lockfast.runtime.base import T
from lockfast.runtime.threads import Threads

_buried: list[
    Link
] = []  # a parent's channels, in a child: their end would tell the parent's server


AT_ONCE = 16  # claims under way: of five hundred threads that ask at once, none had its answer read
# within a second


_greened: list[bool] = []  # whether grpc was told of gevent


def _work_with_gevent() -> None:
    """Have grpc wait in gevent's loop, if gevent stands in for threads. Otherwise its C code blocks
    the one thread in which everything runs, for ever.
    """
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and not _greened and monkey.is_module_patched("threading"):
        _greened.append(True)
        from grpc.experimental import gevent  # noqa: PLC0415  # it imports gevent

        gevent.init_gevent()


class ThreadTransport(Transport):
    """Channels of a blocking client."""

    def __init__(self, login: Login, runtime: Threads) -> None:
        """Nothing is opened yet."""
        _work_with_gevent()
        super().__init__(login, runtime)
        self._links = self._streams = Links(login, self.now, blocking, end)
        self._turns = runtime.turns(AT_ONCE)

    async def in_turn(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """Wait for a turn."""
        return await self._turns.hold(work, deadline)

    async def _send(self, call: Any, request: bytes, timeout: float) -> bytes:
        reply: bytes = call(request, timeout=timeout, metadata=self._metadata)
        return reply

    async def _send_all(self, call: Any, requests: Sequence[bytes], timeout: float) -> list[bytes]:
        sent = [call.future(each, timeout=timeout, metadata=self._metadata) for each in requests]
        return [each.result() for each in sent]

    def reset(self) -> None:
        """Leave the parent's channels as they are, for ever."""
        _buried.extend(self._links.clear())

    async def close(self) -> None:
        """Close all channels."""
        await super().close()
        for link in self._links.clear():
            end(link)
