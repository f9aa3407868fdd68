"""Listens for one client: its waiters, and the one stream on which etcd reports what they watch."""

from __future__ import annotations

import math
from collections.abc import Iterable

from lockfast.engines.etcd.messages import heard
from lockfast.engines.etcd.protobuf import Malformed
from lockfast.engines.etcd.transport import Transport
from lockfast.engines.etcd.waiters import Wait, Waits
from lockfast.engines.etcd.watch_stream import Stream
from lockfast.port import Wake

CALM = 0.1  # seconds between a stream that broke and the next
CALMEST = 3.0  # seconds, if etcd refuses watch after watch: a waiter is looked at as often


class Listener:
    """Opens its stream with the first waiter: a client that never waits has none."""

    def __init__(self, transport: Transport, base: int) -> None:
        """Begin closed."""
        self._transport = transport
        self._waits = Waits(base)
        self._stream: Stream | None = None
        self._calm = 0.0  # when another stream may be opened
        self._pause = CALM

    def next(self) -> float:
        """Tell when to look again, if nothing is heard."""
        return self._calm if self._waits and self._stream is None else math.inf

    def watch(self, wait: Wait) -> None:
        """Watch what a waiter waits for, from where its snapshot ended."""
        told = self._waits.add(wait)
        stream = self._stream
        if stream is None or stream.broken:
            self._transport.rouse()  # the heart opens one, and watches for all that wait
        else:
            stream.send(told)

    def unwatch(self, ids: Iterable[str]) -> None:
        """Watch no longer for these."""
        if self._waits:
            told = self._waits.drop(ids)
            if self._stream is not None:
                self._stream.send(told)

    async def hear(self) -> tuple[list[Wake], list[Wait]]:
        """Take in what the watches say: who is let in, and who has to look.

        A stream that broke, or leads to a member that is no longer asked, is replaced by one that
        goes on where each watch began. So is one whose login is over: etcd begins no watch on it
        any more, and of those that it has begun nobody knows how long it keeps them.
        """
        stream = self._stream
        if stream is not None and stream.broken:
            self._transport.doubt(stream.address)  # the member has gone, or has lost its leader
            self._calm = self._transport.now() + CALM
        if stream is not None and (stream.broken or not self._transport.leads(stream)):
            stream.close()
            stream = self._stream = None
        if stream is None:
            if self._waits and self._transport.now() >= self._calm:
                # Known before it is told of all: who comes meanwhile is told of twice, not never.
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
        """Note that etcd refuses watches: open another stream, later and later."""
        self._transport.suspect(why)
        stream.close()
        self._stream = None
        self._calm = self._transport.now() + self._pause
        self._pause = min(self._pause * 2.0, CALMEST)

    def close(self) -> None:
        """Close the stream."""
        if self._stream is not None:
            self._stream.close()
