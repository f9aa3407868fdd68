"""Routes: which server to ask, and what to do when it sends us elsewhere. No colour."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import hiredis

from lockfast.engines.redis import packets
from lockfast.engines.redis.keys import BUCKETS, command
from lockfast.engines.redis.scripts import Script
from lockfast.engines.redis.topology import Topology
from lockfast.engines.redis.wire import DEMOTED, Address, Wire, code, failure
from lockfast.errors import EngineRefused, EngineUnavailable
from lockfast.port import Ask
from lockfast.runtime.base import Clock


class Routes:
    """What an engine needs of a topology and a transport together."""

    def __init__(self, wire: Wire, topology: Topology, clock: Clock) -> None:
        """Let the topology know when a server does not answer."""
        self._wire = wire
        self._topology = topology
        wire.trouble = topology.doubt
        self._now = clock

    async def _nodes(self, deadline: float, *, again: bool) -> list[Address]:
        """List the servers that have buckets, as they are known or asked for again."""
        if again or self._topology.find(0) is None:
            await self._where(0, deadline)
        every = (self._topology.find(bucket) for bucket in range(BUCKETS))
        return sorted({address for address in every if address is not None})

    async def _where(self, bucket: int, deadline: float) -> Address:
        """Learn which server has the bucket."""

        async def call(address: Address, packet: bytes) -> Any:
            return await self._wire.call(address, packet, min(deadline, self._now() + 1.0))

        await self._topology.refresh(call)
        found = self._topology.find(bucket)
        if found is None:
            raise EngineUnavailable("that part of the cluster has no primary now", sent=False)
        return found

    async def _insist(  # noqa: PLR0913, PLR0917  # all that another attempt needs
        self,
        reply: Any,
        script: Script,
        address: Address,
        bucket: int,
        pack: Callable[[Address], bytes],
        deadline: float,
    ) -> tuple[Address, Any]:
        """After an error: follow a bucket that moved, bring a script along that is not there.

        Give who answered, and the reply. What is sent is packed anew for each server: it may hold
        times, and another server has another clock.
        """
        whole = False
        for _ in range(6):
            said = str(reply)
            if said.startswith("NOSCRIPT"):
                whole = True
            else:
                there = self._topology.moved(bucket, said)
                if there is None:
                    break
                address = there
                if address not in self._wire.offsets:
                    await self._wire.call(address, command("PING"), deadline)
            packet = script.whole(pack(address)) if whole else pack(address)
            if said.startswith("ASK "):
                pair = [command("ASKING"), packet]
                reply = (await self._wire.pipeline(address, pair, deadline, heart=False))[1]
            else:
                reply = await self._wire.call(address, packet, deadline)
            if type(reply) is not hiredis.ReplyError:
                return address, reply
        raise self._failure(reply, address)

    def _failure(
        self, reply: hiredis.ReplyError, address: Address
    ) -> EngineUnavailable | EngineRefused:
        """Turn an error reply into ours, and take in what it says of the server."""
        error = failure(reply, address)
        if isinstance(error, EngineUnavailable):
            self._topology.doubt()
        if code(reply) == DEMOTED:
            self._wire.forget(address)
        return error

    async def _scripts(
        self,
        script: Script,
        address: Address,
        calls: Sequence[bytes],
        deadline: float,
        *,
        heart: bool,
    ) -> list[Any]:
        """Run a script several times in one round trip."""
        replies = await self._wire.pipeline(address, calls, deadline, heart=heart)
        lacking = [
            i
            for i, reply in enumerate(replies)
            if isinstance(reply, hiredis.ReplyError) and str(reply).startswith("NOSCRIPT")
        ]
        if lacking:
            some = [script.whole(calls[i]) for i in lacking]
            again = await self._wire.pipeline(address, some, deadline, heart=heart)
            for i, reply in zip(lacking, again, strict=True):
                replies[i] = reply
        return replies

    async def _grouped(
        self, asks: Sequence[Ask], deadline: float
    ) -> dict[Address, list[list[int]]]:
        """Sort claims by server, and within it into those that one call may carry."""
        if self._topology.together:
            address = self._topology.find(0) or await self._where(0, deadline)
            return {address: [list(range(len(asks)))]}
        grouped: dict[Address, dict[int, list[int]]] = {}
        for i, ask in enumerate(asks):
            bucket = packets.renewal(ask).bucket
            address = self._topology.find(bucket) or await self._where(bucket, deadline)
            grouped.setdefault(address, {}).setdefault(bucket, []).append(i)
        return {address: list(groups.values()) for address, groups in grouped.items()}
