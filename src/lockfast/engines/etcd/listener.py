"""Listens for the waiters of one client, on one stream of watches."""

from __future__ import annotations

import math
from collections.abc import Iterable

from lockfast.engines.etcd.messages import heard
from lockfast.engines.etcd.protobuf import Malformed
from lockfast.engines.etcd.transport import Transport
from lockfast.engines.etcd.waiters import Wait, Waits
from lockfast.engines.etcd.watch_stream import Stream
from lockfast.port import Wake

CALM = 0.1  # seconds between the break of a stream and the next stream
# Seconds between streams if etcd refuses watch after watch. The heart renews a waiter about as
# often, and reads its queue then.
CALMEST = 3.0


class Listener:
    """Reports which waiters may be granted. Opens no stream before the first waiter comes."""

    def __init__(self, transport: Transport, base: int) -> None:
        """Start without a stream. `base` is added to every ticket."""
        self._transport = transport
        self._waits = Waits(base)
        self._stream: Stream | None = None
        self._calm = 0.0  # when another stream may be opened
        self._pause = CALM

    def next(self) -> float:
        """Return when to call `hear` again if nothing is heard: when it may open a stream."""
        return self._calm if self._waits and self._stream is None else math.inf

    def watch(self, wait: Wait) -> None:
        """Watch for a waiter, from the revision at which its snapshot was read."""
        told = self._waits.add(wait)
        stream = self._stream
        if stream is None or stream.broken:
            self._transport.rouse()  # the heart opens one, for all waiters
        else:
            stream.send(told)

    def unwatch(self, ids: Iterable[str]) -> None:
        """Watch no longer for these waiters."""
        if self._waits:
            told = self._waits.drop(ids)
            if self._stream is not None:
                self._stream.send(told)

    async def hear(self) -> tuple[list[Wake], list[Wait]]:
        """Return the wakes, and the waiters that have to read their queue.

        A stream that broke, or leads to a member that is no longer current, is replaced by one that
        continues each watch after the revision it has reached. So is a stream whose login has
        expired: etcd begins no more watches on it, and may end those that it has begun.
        """
        stream = self._stream
        if stream is not None and stream.broken:
            self._transport.doubt(stream.address)  # the member is down, or has lost its leader
            self._calm = self._transport.now() + CALM
        if stream is not None and (stream.broken or not self._transport.leads(stream)):
            stream.close()
            stream = self._stream = None
        if stream is None:
            if self._waits and self._transport.now() >= self._calm:
                # Set before it gets the watches: a waiter that comes now is sent twice, not never.
                stream = self._stream = await self._transport.stream()
                stream.send(self._waits.again())
            return [], []
        try:
            messages = [heard(message) for message in stream.take()]
        except Malformed as error:
            self._refused(stream, str(error))
            return [], []
        wakes, unsure, told = self._waits.hear(messages)
        stream.send(told)
        refusals = [each.refused for each in messages if each.refused is not None]
        if refusals:
            self._refused(stream, refusals[0])
        elif any(each.begun for each in messages):
            self._pause = CALM
        return wakes, unsure

    def _refused(self, stream: Stream, why: str) -> None:
        """Note that etcd refused a watch. Open another stream, each time after a longer pause."""
        self._transport.suspect(why)
        stream.close()
        self._stream = None
        self._calm = self._transport.now() + self._pause
        self._pause = min(self._pause * 2.0, CALMEST)

    def close(self) -> None:
        """Close the stream."""
        if self._stream is not None:
            self._stream.close()
