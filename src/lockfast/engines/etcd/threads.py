"""The blocking transport: all threads of a client share one connection to a member."""

from __future__ import annotations

import sys
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import grpc

from lockfast.engines.etcd.transport import Link, Login, Transport
from lockfast.runtime.base import T
from lockfast.runtime.threads import Threads

# A parent's channels, in a forked child. They are kept, because closing them would tell the
# parent's server.
_buried: list[Link] = []


# Claims under way at once. When five hundred threads sent claims at once, none of the replies was
# read within a second.
AT_ONCE = 16


_greened: list[bool] = []  # not empty once grpc works with gevent


def _work_with_gevent() -> None:
    """Make grpc wait in gevent's loop, if gevent has patched `threading`. Otherwise grpc's C code
    would block the one thread in which everything runs, for ever.
    """
    monkey = sys.modules.get("gevent.monkey")
    if monkey is not None and not _greened and monkey.is_module_patched("threading"):
        _greened.append(True)
        from grpc.experimental import gevent  # noqa: PLC0415  # it imports gevent

        gevent.init_gevent()


class ThreadTransport(Transport):
    """The transport of a blocking client."""

    def __init__(self, login: Login, runtime: Threads) -> None:
        """Connect to nothing yet."""
        _work_with_gevent()
        super().__init__(login, runtime)
        self._turns = runtime.turns(AT_ONCE)

    def _open(self, address: str) -> Link:
        return Link(address, self._login.channel()(address))

    def _blocking(self, address: str) -> grpc.Channel:
        channel: grpc.Channel = self._link(address).channel
        return channel

    async def in_turn(self, work: Callable[[], Coroutine[Any, Any, T]], deadline: float) -> T:
        """Run `work` once fewer than `AT_ONCE` claims are under way."""
        return await self._turns.hold(work, deadline)

    async def _send(self, call: Any, request: bytes, timeout: float) -> bytes:
        reply: bytes = call(request, timeout=timeout, metadata=self._metadata)
        return reply

    async def _send_all(self, call: Any, requests: Sequence[bytes], timeout: float) -> list[bytes]:
        sent = [call.future(each, timeout=timeout, metadata=self._metadata) for each in requests]
        return [each.result() for each in sent]

    def reset(self) -> None:
        """Forget the parent's channels without closing them."""
        _buried.extend(self._links.values())
        self._links = {}

    async def close(self) -> None:
        """Close all channels."""
        await super().close()
        links, self._links = self._links, {}
        for link in links.values():
            link.channel.close()
