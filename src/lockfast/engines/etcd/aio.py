"""The asyncio transport: all tasks of a client share one connection to a member.

A forked child cannot use grpc.aio if its parent has used it, because grpc.aio polls in a thread
that the child does not have. In such a child, calls go through grpc's threads, which start again
there.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from lockfast.engines.etcd.transport import OPTIONS, Link, Login, Transport
from lockfast.runtime.aio import Aio

_buried: list[object] = []  # a parent's channels, as in `threads`
# Empty until grpc.aio is used. Then it has one value: whether this is a forked child of a process
# that used grpc.aio.
_spoiled: list[bool] = []


class AioTransport(Transport):
    """The transport of an asyncio client."""

    def __init__(self, login: Login, runtime: Aio) -> None:
        """Bind to the running loop, and connect to nothing yet."""
        super().__init__(login, runtime)
        self._loop = asyncio.get_running_loop()
        self._bridged = any(_spoiled)
        self._channels: dict[str, grpc.Channel] = {}

    def _open(self, address: str) -> Link:
        if self._bridged:
            return Link(address, self._blocking(address))
        if not _spoiled:
            _spoiled.append(False)
        credentials = self._login.credentials
        return Link(
            address,
            grpc.aio.insecure_channel(address, OPTIONS)
            if credentials is None
            else grpc.aio.secure_channel(address, credentials, OPTIONS),
        )

    def _blocking(self, address: str) -> grpc.Channel:
        channel = self._channels.get(address)
        if channel is None:
            channel = self._channels[address] = self._login.channel()(address)
        return channel

    async def _send(self, call: Any, request: bytes, timeout: float) -> bytes:
        if self._bridged:
            return await self._bridge(call, request, timeout)
        reply: bytes = await call(request, timeout=timeout, metadata=self._metadata)
        return reply

    async def _send_all(self, call: Any, requests: Sequence[bytes], timeout: float) -> list[bytes]:
        return await asyncio.gather(*(self._send(call, each, timeout) for each in requests))

    async def _bridge(self, call: Any, request: bytes, timeout: float) -> bytes:
        waiter: asyncio.Future[bytes] = self._loop.create_future()

        def tell(done: Any) -> None:
            if waiter.done():
                return
            error = done.exception()
            if error is not None:
                waiter.set_exception(error)
            else:
                waiter.set_result(done.result())

        sent = call.future(request, timeout=timeout, metadata=self._metadata)
        sent.add_done_callback(lambda done: self._post(lambda: tell(done)))
        try:
            return await waiter
        finally:
            sent.cancel()

    def _post(self, callback: Callable[[], object]) -> None:
        """Run a callback in the loop. Called by grpc's threads."""
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:  # the loop is closed: nobody waits any more
            return

    def reset(self) -> None:
        """Forget the parent's channels without closing them."""
        _buried.extend([*self._links.values(), *self._channels.values()])
        self._links = {}
        self._channels = {}

    async def close(self) -> None:
        """Close all channels."""
        await super().close()
        links, self._links = self._links, {}
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.close()
        if not self._bridged:
            for link in links.values():
                await link.channel.close()


def _in_child() -> None:
    if _spoiled:
        _spoiled[0] = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
