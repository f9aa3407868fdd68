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

import grpc.aio

from lockfast.engines.etcd.links import OPTIONS, Credentials, Link, Links, Login, blocking, end
from lockfast.engines.etcd.transport import Transport
from lockfast.runtime.aio import Aio

GRACE = 0.2  # seconds
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
        self._ends: set[asyncio.Task[None]] = set()
        if self._bridged:
            self._links = self._streams = Links(login, self.now, blocking, end)
        else:
            self._links = Links(login, self.now, _open, self._end_later)
            # Nobody else uses these, and their stream is over when another one is opened.
            self._streams = Links(login, self.now, blocking, end, grace=0.0)

    def _end_later(self, link: Link) -> None:
        """Close a link that was replaced. A call that is still under way gets `GRACE` seconds:
        without any, gRPC would cancel it, and its caller would take that for its own cancellation.
        """
        task = self._loop.create_task(link.channel.close(GRACE))
        self._ends.add(task)
        task.add_done_callback(self._ends.discard)

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
        _buried.extend([*self._links.clear(), *self._streams.clear()])

    async def close(self) -> None:
        """Close all channels."""
        await super().close()
        for link in self._streams.clear():
            end(link)
        for link in self._links.clear():  # bridged, these were the same
            await link.channel.close()
        await asyncio.gather(*self._ends, return_exceptions=True)


def _open(address: str, credentials: Credentials) -> Link:
    if not _spoiled:
        _spoiled.append(False)
    return Link(
        address,
        grpc.aio.insecure_channel(address, OPTIONS)
        if credentials is None
        else grpc.aio.secure_channel(address, credentials, OPTIONS),
        credentials,
    )


def _in_child() -> None:
    if _spoiled:
        _spoiled[0] = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
